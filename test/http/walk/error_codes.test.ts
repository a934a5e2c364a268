import { describe, expect, test } from "vitest";
import { type ErrorCode, errorCodes } from "../../../src/errors.ts";
import { routeErrors } from "../../../src/http/openapi/route_errors.ts";
import { contract, declaredRoutes } from "./documented.ts";
import { scenarios, spending } from "./error_codes.ts";
import { shareScenes } from "./scene.ts";
import { wholeApi } from "./world.ts";

const api = wholeApi();
const takeScene = shareScenes(api);

const codes = Object.keys(errorCodes) as ErrorCode[];
const isError = contract.document.components as { schemas: { Error: Record<string, unknown> } };

describe("error codes", () => {
  test.each(codes)(
    "a call returns %s in the common form of errors",
    async (code) => {
      const scene = await takeScene({ isSpent: spending.has(code) });
      const answer = await scenarios[code](api, scene);
      const [status] = errorCodes[code];
      expect([answer.status, answer.body]).toEqual([
        status,
        { error: { code, message: expect.any(String), status } },
      ]);
      expect(contract.fits(isError.schemas.Error, answer.body)).toBe(true);
      expect(answer.headers.get("retry-after") !== null).toBe([429, 503].includes(status));
      expect(answer.headers.get("allow") !== null).toBe(status === 405);
    },
    300_000,
  );

  const ofEveryPath: readonly ErrorCode[] = ["method_not_allowed", "not_implemented"];
  test.each(codes.filter((code) => !ofEveryPath.includes(code)))("an operation declares %s", (code) => {
    expect(declaredRoutes.some((route) => routeErrors(route).includes(code))).toBe(true);
  });
});
