import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { describe, expect, test } from "vitest";
import { eventKinds } from "../../../src/events/kinds.ts";
import { createWebhookSecret } from "../../../src/events/secrets.ts";
import { asyncApiDocument } from "../../../src/http/asyncapi/asyncapi.ts";
import { signedHeaders } from "../../../src/webhooks/sign_and_send.ts";
import { startApi } from "../../support/api.ts";
import { currentSchemas } from "../../support/schema_files.ts";

type Message = {
  name: string;
  payload: object;
  headers: object;
  correlationId: { location: string };
  bindings?: { kafka: { key: object } };
  examples?: Record<string, object>[];
};
type Channel = {
  address: string | null;
  messages: Record<string, { $ref: string }>;
  parameters?: object;
  bindings?: { kafka: { partitions: number; topicConfiguration: object } };
};
const document = asyncApiDocument({ word: "acme", version: "0.0.0" }) as {
  asyncapi: string;
  servers: Record<string, { host: string }>;
  channels: Record<string, Channel>;
  operations: Record<string, { action: string; channel: { $ref: string } }>;
  components: { messages: Record<string, Message> };
};
const { messages } = document.components;
const ajv = addFormats.default(new Ajv2020({ allErrors: true, allowUnionTypes: true }));
const files = Object.entries(currentSchemas());

describe("the AsyncAPI document", () => {
  test("describes the three topics under any prefix, as deputize migrate creates them", () => {
    const { webhooks, ...topics } = document.channels;
    expect(
      Object.values(topics).map(({ address, bindings }) => [address, bindings?.kafka.partitions]),
    ).toEqual([
      ["{prefix}deputize.lifecycle.v1", 12],
      ["{prefix}deputize.audit.v1", 12],
      ["{prefix}deputize.dlq.v1", 3],
    ]);
    const kept = Object.values(topics).map(({ bindings }) => bindings?.kafka.topicConfiguration);
    expect(kept).toEqual(
      [7, 7, 30].map((days) => ({
        "cleanup.policy": ["delete"],
        "retention.ms": days * 86_400_000,
      })),
    );
    expect(webhooks?.address).toBeNull();
  });

  test("contains no host name", () => {
    expect(Object.values(document.servers).map(({ host }) => host)).toEqual(["{brokers}", "{receiver}"]);
    expect(JSON.stringify(document)).not.toMatch(/localhost|127\.0\.0|:\/\/(?!shop\.example\.com)/);
  });

  test("has one receiving operation for each channel", () => {
    expect(Object.entries(document.operations)).toMatchObject(
      Object.keys(document.channels).map((name) => [
        `receive_${name}`,
        { action: "receive", channel: { $ref: `#/channels/${name}` } },
      ]),
    );
  });

  test("has each message in exactly one channel, and every message of every channel", () => {
    const used = Object.values(document.channels).flatMap((channel) =>
      Object.values(channel.messages).map(({ $ref }) => $ref),
    );
    expect(used.sort()).toEqual(
      Object.keys(messages)
        .map((name) => `#/components/messages/${name}`)
        .sort(),
    );
  });

  test.each(files.filter(([name]) => !name.includes("dead_letter")))(
    "has the same content as the schema file %s",
    (name, text) => {
      const { $schema, $id, title, description, examples, $defs, ...schema } = JSON.parse(text);
      const webhook = name.endsWith(".webhook.schema.json");
      const message = messages[name.replace(".schema.json", "")];
      expect(message?.payload).toEqual(schema);
      if (!webhook) expect(message?.headers).toEqual($defs.headers);
    },
  );

  test("describes dead letters like the schema file", () => {
    const file = JSON.parse(Object.fromEntries(files)["dead_letter.schema.json"] ?? "");
    expect(messages.dead_letter?.headers).toEqual(file.$defs.headers);
  });

  test("describes the key of each record, and how messages relate to each other", () => {
    const { webhooks, ...topics } = document.channels;
    for (const name of Object.values(topics).flatMap((topic) => Object.keys(topic.messages))) {
      expect([name, messages[name]?.bindings?.kafka.key]).toMatchObject([
        name,
        { type: "string", format: "uuid" },
      ]);
    }
    for (const { headers, correlationId } of Object.values(messages)) {
      const header = correlationId.location.replace("$message.header#/", "");
      expect(headers).toHaveProperty(["properties", header]);
    }
  });

  test("has valid examples of every kind of event", () => {
    for (const [name, { payload, headers, examples = [] }] of Object.entries(messages)) {
      expect([name, examples.length > 0]).toEqual([name, name !== "dead_letter"]);
      for (const example of examples) {
        expect(ajv.validate(payload, example.payload)).toBe(true);
        if (example.headers !== undefined) expect(ajv.validate(headers, example.headers)).toBe(true);
      }
    }
  });

  test("has a webhook for every kind of callback event, with its headers", () => {
    const names = Object.keys(document.channels.webhooks?.messages ?? {});
    expect(names).toEqual(Object.keys(eventKinds).map((kind) => `${kind}.webhook`));
    const delivery = { deliveryId: "7d0e1f3c-0000-5000-8000-000000000001", body: "{}" };
    const sent = signedHeaders(delivery, createWebhookSecret(), new Date(), "acme");
    for (const name of names) {
      const headers = messages[name]?.headers ?? {};
      const { properties = {} } = headers as { properties?: object };
      expect([...Object.keys(properties), "Content-Type", "User-Agent"].sort()).toEqual(
        Object.keys(sent).sort(),
      );
      expect(ajv.validate(headers, sent)).toBe(true);
    }
  });

  test("appears unchanged at /asyncapi.json", async () => {
    const api = await startApi({ config: { SERVICE_WORD: "acme" } });
    const answer = await api.client().get("/asyncapi.json");
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
    expect(answer.body).toEqual(JSON.parse(JSON.stringify(document)));
    expect((await api.client().post("/asyncapi.json")).status).toBe(404);
    await api.stop();
  });
});
