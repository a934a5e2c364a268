import { ApiError } from "../../errors.ts";
import type { Exchange, FinishExchange } from "./finish_exchange.ts";
import type { Place } from "./path_routes.ts";

/**
 * Ends an exchange at a place by its method's route, or as `method_not_allowed` with the methods there are.
 */
export type ServePlace = (place: Place, exchange: Exchange, params: Record<string, string>) => Promise<void>;

/** Serves places; every exchange is ended by `finish`. */
export function createServePlace(finish: FinishExchange): ServePlace {
  return ({ byMethod, allow }, exchange, params) => {
    const found = byMethod.get(exchange.request.method ?? "");
    if (found === undefined) {
      return finish(exchange, "none", async () => {
        throw new ApiError("method_not_allowed", undefined, { allow });
      });
    }
    return finish(exchange, found.route.id, ({ request, id }) =>
      found.serve({ message: request, params, requestId: id.logged }),
    );
  };
}
