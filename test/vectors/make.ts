import { writeFileSync } from "node:fs";
import { ed25519Cases } from "./make_ed25519.ts";
import { mlDsa65Cases } from "./make_ml_dsa_65.ts";

write("signatures/ed25519.json", ed25519Cases());
write("signatures/ml_dsa_65.json", mlDsa65Cases());

function write(name: string, content: unknown): void {
  writeFileSync(new URL(name, import.meta.url), `${JSON.stringify(content, null, 2)}\n`);
}
