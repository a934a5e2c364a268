import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { setScene } from "../../http/walk/scene.ts";
import { camelJars, startCamel } from "../../support/camel.ts";
import { kafkaForTests } from "../../support/kafka.ts";
import { until } from "../../support/process.ts";
import { everyEvent } from "../schemas/every_event.ts";
import { example, siemWorld, withOwn } from "./siem_world.ts";

type Taken = { id: string; account_id: string; event: object };

const { missing: noKafka, start } = await kafkaForTests({ needsOwn: true });
const { jars = "", missing = noKafka } = await camelJars();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)("the example for Apache Camel", { timeout: 300_000 }, () => {
  const world = siemWorld(start);
  const taken: Taken[] = [];
  const refused: string[] = [];
  let answer = 503;
  let siem: Server;
  beforeAll(async () => {
    siem = createServer(async (request, response) => {
      const body = Buffer.concat(await request.toArray()).toString();
      const { id } = JSON.parse(body) as Taken;
      if (answer !== 200) refused.push(id);
      else if (!taken.some((each) => each.id === id)) taken.push(JSON.parse(body));
      const { authorization, "content-type": type } = request.headers;
      const known = authorization === "Splunk t0ken" && type === "application/json";
      response.writeHead(known ? answer : 400).end();
    });
    await once(siem.listen(0, "127.0.0.1"), "listening");
  });
  afterAll(() => siem.close());

  async function forward() {
    const { port } = siem.address() as AddressInfo;
    const properties = withOwn(await example("camel/application.properties"), {
      "kafka.brokers": world.brokers,
      "audit.topic": world.auditTopic,
      "siem.url": `http://127.0.0.1:${port}/services/collector/event`,
    });
    const files = {
      "application.properties": properties.replace("/etc/deputize-siem/ca.pem", world.authorityFile),
      "audit_to_http.yaml": await example("camel/audit_to_http.yaml"),
    };
    const before = taken.length + refused.length;
    const env = { SIEM_AUTHORIZATION: "Splunk t0ken", KAFKA_JAAS: world.jaas };
    return startCamel(jars, files, env, async () => taken.length + refused.length > before);
  }

  const entriesOf = (accountId: string) =>
    taken.filter(({ account_id }) => account_id === accountId).map(({ event }) => JSON.stringify(event));

  test("sends history entries in order, retries refused entries, and loses none in a crash", async () => {
    const { person } = await everyEvent(world.api);
    const running = await forward();
    await until("it is tried again", () => refused.length >= 3, 60_000);
    expect(new Set(refused).size).toBe(1);
    expect(taken).toEqual([]);
    answer = 200;
    await until("six are taken", () => taken.length >= 6, 60_000);
    await running.kill();
    const { person: other } = await setScene(world.api);
    const again = await forward();
    await until("two more are taken", () => entriesOf(other.accountId).length >= 2, 60_000);
    await again.stop();
    expect(entriesOf(person.accountId)).toEqual(await world.shownTo(person));
    expect(entriesOf(other.accountId)).toEqual(await world.shownTo(other));
    expect(taken[0]?.id).toBe(refused[0]);
  });
});
