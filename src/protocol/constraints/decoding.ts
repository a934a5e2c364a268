import { ProtocolError } from "../encoding/errors.ts";
import { asObject, type Decoder, float, integer, list, object, text } from "../encoding/fields.ts";
import { Decimal, type JsonValue } from "../encoding/json.ts";
import type { Constraint, ConstraintType, ExtensionParams, KnownConstraint } from "./constraints.ts";
import { canonicalBox, type GeoBox } from "./geometry.ts";

type Decoders = { [T in ConstraintType]: Decoder<Extract<KnownConstraint, { type: T }>> };

const coordinates = list(float);

const point: Decoder<[number, number]> = (value) => {
  const [lat, lon, ...others] = coordinates(value);
  if (lat === undefined || lon === undefined || others.length > 0) {
    throw new ProtocolError("wrong_length", "a point must be [lat, lon]");
  }
  return [lat, lon];
};

const box: Decoder<GeoBox> = object(
  { type: literal("geo_bbox"), min_lat: float, min_lon: float, max_lat: float, max_lon: float },
  { min_alt_m: float, max_alt_m: float },
);

/** Decodes a box that has both altitudes or neither. Two altitudes of 0 limit nothing and are omitted. */
const pairedBox: Decoder<GeoBox> = (value) => {
  const decoded = box(value);
  if ((decoded.min_alt_m === undefined) !== (decoded.max_alt_m === undefined)) {
    throw new ProtocolError(
      "missing_field",
      "min_alt_m and max_alt_m must both be present or both be absent",
    );
  }
  return canonicalBox(decoded);
};

const DECODERS: Decoders = {
  geo_circle: object({ type: literal("geo_circle"), lat: float, lon: float, radius_m: float }),
  geo_polygon: object({ type: literal("geo_polygon"), points: list(point) }),
  geo_bbox: pairedBox,
  time_window: object({ type: literal("time_window"), start: text(), end: text(), tz: text() }),
  max_speed_mps: object({ type: literal("max_speed_mps"), max_mps: float }),
  max_amount: object({ type: literal("max_amount"), max_amount: float, currency: text() }),
  max_rate: object({ type: literal("max_rate"), count: integer(), window_s: integer() }),
  resource_path: object({ type: literal("resource_path"), resource_id: text() }, { path_prefix: text() }),
};

const extension: Decoder<Constraint> = object({ type: text() }, { params: extensionParams });

/**
 * Decodes a constraint with exactly the fields of its type. Does not check whether it can ever hold. An
 * unknown type may have `type` and `params` only (wire format §7).
 */
export const decodeConstraint: Decoder<Constraint> = (value) => {
  const { type } = asObject(value);
  if (type === undefined || type === null || type === "") throw new ProtocolError("missing_field", "type");
  return typeof type === "string" && Object.hasOwn(DECODERS, type)
    ? DECODERS[type as ConstraintType](value)
    : extension(value);
};

function literal<T extends string>(name: T): Decoder<T> {
  return () => name;
}

function extensionParams(value: JsonValue): ExtensionParams {
  if (value instanceof Decimal) throw new ProtocolError("invalid_integer", "not written as a plain integer");
  if (typeof value === "bigint" || (typeof value === "number" && !Number.isSafeInteger(value))) {
    throw new ProtocolError("invalid_integer", "not a safe integer");
  }
  if (Array.isArray(value)) return value.map(extensionParams);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, extensionParams(member)]));
}
