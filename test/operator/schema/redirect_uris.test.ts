import fc from "fast-check";
import { expect, test } from "vitest";
import { loadSchemas } from "../../../src/operator/schema/schemas.ts";
import { redirectUriFault } from "../../../src/platforms/redirect_uris.ts";
import { platform } from "./cases/manifests.ts";

const part = fc.constantFrom(
  ...["http://", "https://", "HTTPS://", "localhost", "127.0.0.1", "[::1]", "shop.example", "xn--bcher-kva"],
  ...[
    "a-b.example.",
    "user:pw@",
    "@",
    ":3000",
    ":443",
    ":0",
    ":",
    "/",
    "//",
    "\\",
    "/../",
    "?",
    "&",
    "=",
    "#",
  ],
  ...["code", "state=1", "iss", "error_description", "%73tate", "a", "~", "'", '"', "|", "ü", " ", "\n", "*"],
);
const uris = fc.oneof(
  fc.array(part, { minLength: 1, maxLength: 8 }).map((parts) => parts.join("")),
  fc
    .tuple(
      fc.constantFrom("https://shop.example", "http://[::1]:3000", "https://[2001:db8::1]"),
      fc.array(part),
    )
    .map(([origin, parts]) => `${origin}/${parts.join("")}`),
  fc.webUrl({ withQueryParameters: true, withFragments: true }),
);

test("the definition of a Platform accepts every redirect URI that the API accepts for a draft", async () => {
  const schemas = await loadSchemas();
  let accepted = 0;
  const property = fc.property(uris, (given) => {
    const uri = URL.parse(given)?.href ?? given;
    fc.pre(uri.length <= 512);
    if (redirectUriFault(uri, null) !== undefined) return;
    accepted += 1;
    expect(schemas.validate(platform({ redirectURIs: [uri] })).violations).toBeUndefined();
  });
  fc.assert(property, { numRuns: 2_000 });
  expect(accepted).toBeGreaterThan(200);
});
