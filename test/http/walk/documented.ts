import { type ApiRoutesDeps, apiRoutes } from "../../../src/http/api_routes.ts";
import { openApiDocument } from "../../../src/http/openapi/openapi.ts";
import { publishedDocument } from "../../../src/http/openapi/published.ts";
import { readOpenApiDocument } from "./openapi_document.ts";

const info = { baseUrl: "http://127.0.0.1", word: "service", version: "0.0.0" };

/** The API's routes without dependencies, to read their declarations. */
export const declaredRoutes = apiRoutes({ baseUrl: info.baseUrl, word: info.word } as ApiRoutesDeps);

/** The full OpenAPI document of all these routes, available without a server. Tests are generated from it. */
export const contract = readOpenApiDocument(openApiDocument(declaredRoutes, info));

/** The same document as the API serves it. */
export const published = publishedDocument(contract.document);

/** The operator's operations, as the OpenAPI document would describe them if they were public. */
export const internalOperations = readOpenApiDocument(
  openApiDocument(
    declaredRoutes
      .filter(({ access }) => access === "operator")
      .map((route) => ({
        ...route,
        access: "public" as const,
        errors: [...route.errors, "operator_unauthorized" as const, "stale_epoch" as const],
      })),
    info,
  ),
).operations;
