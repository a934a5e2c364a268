import { accepts, letters, refuses, type SchemaCase, withMetadata } from "./manifests.ts";

export const metadata: SchemaCase[] = [
  accepts("a name of 63 characters", withMetadata({ name: letters(63) })),
  refuses("a name of 64 characters", withMetadata({ name: letters(64) })),
  refuses("a name in upper case", withMetadata({ name: "Shop" })),
  accepts("a name with dots", withMetadata({ name: "shop.example" })),
  refuses("a name ending in a dash", withMetadata({ name: "shop-" })),
  refuses("an unknown field in metadata", withMetadata({ colour: "red" })),
  accepts("labels", withMetadata({ labels: { "example.test/team": "shop.a_1", empty: "" } })),
  refuses("a label with a space", withMetadata({ labels: { team: "shop team" } })),
  refuses("a label of 64 characters", withMetadata({ labels: { team: letters(64) } })),
  refuses("a label key with two slashes", withMetadata({ labels: { "a/b/c": "x" } })),
  refuses("a label key with a prefix in upper case", withMetadata({ labels: { "Example/b": "x" } })),
  refuses("a label that is a number", withMetadata({ labels: { team: 1 } })),
  accepts("annotations of any text", withMetadata({ annotations: { note: "any thing: at all\n" } })),
  refuses("an annotation key with a space", withMetadata({ annotations: { "a b": "x" } })),
];
