import type { Step, Terminal } from "../terminal.ts";
import { UserError } from "../user_error.ts";
import { KAFKA_VERSION, kafkaJars } from "./jars.ts";

/**
 * The folder of Kafka's jars for `--kafka`; fetching them the first time is a step of its own. Throws
 * `UserError` with what is missing.
 */
export async function fetchKafka(terminal: Terminal): Promise<string> {
  let step: Step | undefined;
  const { jars, missing } = await kafkaJars(() => {
    step = terminal.step("kafka_jars", `Kafka ${KAFKA_VERSION}, fetched by Maven once`);
  });
  if (jars !== undefined) {
    step?.done(jars);
    return jars;
  }
  const error = new UserError(
    `--kafka needs ${missing}`,
    "Or start without --kafka: the worker then carries events by itself",
  );
  step?.fail(error);
  throw error;
}
