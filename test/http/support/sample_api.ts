import { afterAll, beforeAll } from "vitest";
import { z } from "zod";
import { idText } from "../../../src/input/schemas.ts";
import { startApi, type TestApi } from "../../support/api.ts";
import type { HttpAnswer } from "../../support/http.ts";
import { echoRoute, failingRoute, refusal } from "./sample_routes.ts";

export const FAIL = "/v1/service/fail";

export type SampleApi = {
  api: TestApi;
  fail: () => Promise<never>;
  post(path: string, headers?: Record<string, string>): Promise<HttpAnswer>;
};

/** Runs the sample API for a whole test file. */
export function sampleApi(): SampleApi {
  const world = {
    fail: refusal("agent_disabled"),
    post: (path, headers = {}) => world.api.client().post(path, undefined, { headers }),
  } as SampleApi;
  beforeAll(async () => {
    world.api = await startApi({
      routes: [
        failingRoute(() => world.fail()),
        echoRoute(),
        echoRoute({
          id: "thing",
          method: "GET",
          path: "/v1/service/things/{thing_id}",
          params: z.object({ thing_id: idText }),
        }),
        echoRoute({ id: "newest_part", method: "GET", path: "/v1/service/things/{thing_id}/parts/newest" }),
        echoRoute({ id: "part", method: "GET", path: "/v1/service/things/{thing_id}/parts/{part_id}" }),
        echoRoute({ id: "newest_thing", method: "GET", path: "/v1/service/things/newest" }),
        echoRoute({
          id: "put_thing",
          method: "PUT",
          path: "/v1/service/things/{thing_id}",
          errors: ["internal"],
        }),
        echoRoute({ id: "lying", path: "/v1/service/lying", handle: async () => ({ body: 7 }) }),
      ],
    });
  });
  afterAll(() => world.api.stop());
  return world;
}
