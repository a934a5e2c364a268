import {
  accepts,
  agent,
  approval,
  constrained,
  delegation,
  letters,
  platform,
  principal,
  refuses,
  type SchemaCase,
  withMetadata,
  withStatus,
} from "./manifests.ts";

const window = { type: "time_window", start: "09:00", end: "17:00", tz: "Europe/Zurich" };
const amount = { type: "max_amount", max_amount: 5, currency: "EUR" };
const named = (name: string) => ({ name });

/** A case for every rule that the cases about fields do not break. */
export const remainingRules: SchemaCase[] = [
  accepts("an agent with a name of 63 characters", withMetadata({ name: letters(63) }, agent())),
  refuses("an agent with a name of 64 characters", withMetadata({ name: letters(64) }, agent())),
  refuses("a delegation with a name of 64 characters", withMetadata({ name: letters(64) }, delegation())),
  accepts("a reference to a name with a dot", agent({ platformRef: named("shop.eu-1") })),
  refuses("a reference to a name with an underscore", agent({ platformRef: named("shop_eu") })),
  refuses("a delegation on a platform in upper case", delegation({ platformRef: named("Shop") })),
  refuses("a delegation to an agent whose name ends with a dash", delegation({ agentRef: named("bot-") })),
  refuses("a delegation of a scope without an action", delegation({ scopes: ["data"] })),
  refuses("an approval of a scope without an action", withStatus(approval({ approvedScopes: ["data"] }))),
  refuses(
    "an approval of a custom scope of one part",
    withStatus(approval({ approvedScopes: ["custom:refund"] }), delegation({ scopes: ["custom:a:b"] })),
  ),
  refuses("a polygon without points", constrained({ type: "geo_polygon" })),
  refuses("a rate without a window", constrained({ type: "max_rate", count: 5 })),
  refuses("a window that ends at 24:00", constrained({ ...window, end: "24:00" })),
  refuses("a window in a time zone with a space", constrained({ ...window, tz: "Europe Zurich" })),
  refuses("a currency in lower case", constrained({ ...amount, currency: "eur" })),
  refuses(
    "a principal whose id is in upper case",
    platform({ acceptedPrincipals: [principal({ humanID: "A".repeat(32) })] }),
  ),
];
