import type { NamedEntry } from "../../history/history_entry.ts";
import { span } from "./decisions.ts";

type Facts = Record<string, string>;
type Explanation = NonNullable<NamedEntry["details"]["explanation"]>;

/** Isolates the writing direction of a stranger's text. Explanations contain no isolating characters. */
const isolated = (text = "") => `\u2068${text}\u2069`;

function number(text = ""): string {
  const value = Number(text);
  return Number.isFinite(value) && text !== ""
    ? value.toLocaleString("en", { maximumFractionDigits: 6 })
    : isolated(text);
}

/** Phrases for the sent values, or `undefined` if these are missing, and for the allowed values. */
type Saying = { sent(sent: Facts, about: string): string | undefined; allowed(limit: Facts): string };

const money = ({ amount, max_amount, currency }: Facts, about = "") =>
  `${about}${number(amount ?? max_amount)} ${isolated(currency)}`;
const place: Saying["sent"] = ({ latitude, longitude, altitude_m }, about) =>
  latitude !== undefined && longitude !== undefined
    ? `asked at ${about}${number(latitude)}°, ${number(longitude)}°${altitude_m === undefined ? "" : `, ${number(altitude_m)} m high`}`
    : undefined;
const area = () => "the place must be inside the area of the delegation";

const SAYINGS: Record<string, Saying | undefined> = {
  max_amount: {
    sent: (sent, about) => (sent.amount === undefined ? undefined : `asked for ${money(sent, about)}`),
    allowed: (limit) => `at most ${money(limit)} is allowed`,
  },
  max_speed_mps: {
    sent: ({ speed_mps }, about) =>
      speed_mps === undefined ? undefined : `asked at ${about}${number(speed_mps)} m/s`,
    allowed: ({ max_mps }) => `at most ${number(max_mps)} m/s is allowed`,
  },
  max_rate: {
    sent: ({ used }) =>
      used === undefined ? undefined : `was used ${used === "1" ? "once" : `${number(used)} times`} before`,
    allowed: ({ count, window_s }) => {
      const seconds = Number(window_s);
      const window = seconds < 60 ? `${seconds} s` : span(seconds);
      return `${count === "1" ? "one use" : `${number(count)} uses`} in ${window} ${count === "1" ? "is" : "are"} allowed`;
    },
  },
  time_window: {
    sent: ({ time }) => (time === undefined ? undefined : `asked at ${time}`),
    allowed: ({ start, end, tz }) => `allowed from ${start} to ${end}, by the time of ${isolated(tz)}`,
  },
  geo_circle: {
    sent: place,
    allowed: ({ lat, lon, radius_m }) =>
      `allowed within ${number(radius_m)} m of ${number(lat)}°, ${number(lon)}°`,
  },
  geo_polygon: { sent: place, allowed: area },
  geo_bbox: { sent: place, allowed: area },
  resource_path: {
    sent: ({ resource_id, path = "" }) =>
      resource_id === undefined ? undefined : `asked for ${isolated([resource_id, path].join(" ").trim())}`,
    allowed: ({ resource_id, path_prefix = "" }) =>
      `allowed only ${isolated([resource_id, path_prefix].join(" ").trim())}`,
  },
};

/**
 * Returns a line that says what was sent and what is allowed, or `undefined` if these pages do not know the
 * failed constraint.
 */
export function whyDenied(
  { constraint = "", limit = {}, sent = {}, values }: Explanation,
  isUnverifiable: boolean,
): string | undefined {
  const saying = Object.hasOwn(SAYINGS, constraint) ? SAYINGS[constraint] : undefined;
  if (saying === undefined) return undefined;
  const isHidden = Object.values(sent).some((value) => value.startsWith("hmac-sha256:"));
  const about = values === "rounded" ? "about " : "";
  const asked = isUnverifiable
    ? "the application did not send what this limit needs"
    : isHidden
      ? "the value that was sent is not shown"
      : (saying.sent(sent, about) ?? "the value that was sent is not known");
  const text = `${asked}; ${saying.allowed(limit)}`;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
