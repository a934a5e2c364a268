import { beforeEach, describe, expect, test } from "vitest";
import { createClusterEvents } from "../../../src/operator/cluster/events.ts";
import { steeredClock } from "../../support/clock.ts";
import { NOW } from "../objects.ts";

type Sent = { namespace: string; body: { message: string; [field: string]: unknown } };

const shop = {
  apiVersion: "deputize.io/v1alpha1",
  kind: "Platform",
  metadata: { name: "shop", namespace: "team", uid: "1" },
};

describe("Events of a cluster", () => {
  let sent: Sent[];
  let answer: () => Promise<object>;
  let events: ReturnType<typeof createClusterEvents>;

  const record = (message: string) => events.record(shop, { type: "Warning", reason: "Denied", message });
  const messages = () => sent.map(({ body }) => body.message);

  beforeEach(() => {
    sent = [];
    answer = async () => ({});
    const createNamespacedEvent = (event: Sent) => {
      sent.push(event);
      return answer();
    };
    events = createClusterEvents({ core: { createNamespacedEvent } } as never, steeredClock(NOW));
  });

  test("name the object, the reason and the time, and cut the message to 1,024 characters", async () => {
    record("x".repeat(1_025));
    await events.flush();
    expect(sent).toEqual([
      {
        namespace: "team",
        body: {
          metadata: { name: expect.stringMatching(/^shop\.[0-9a-f]{12}$/), namespace: "team" },
          involvedObject: { ...shop.metadata, apiVersion: shop.apiVersion, kind: "Platform" },
          type: "Warning",
          reason: "Denied",
          message: "x".repeat(1_024),
          count: 1,
          firstTimestamp: NOW,
          lastTimestamp: NOW,
          source: { component: "deputize-operator" },
          reportingComponent: "deputize-operator",
        },
      },
    ]);
  });

  test("arrive one after another, and continue after the cluster refused one", async () => {
    const first = Promise.withResolvers<object>();
    answer = () => first.promise;
    record("first");
    record("second");
    await new Promise(setImmediate);
    expect(messages()).toEqual(["first"]);
    answer = async () => ({});
    first.reject(new Error("refused"));
    await events.flush();
    expect(messages()).toEqual(["first", "second"]);
  });

  test("get lost if 200 wait, and arrive again once the queue is empty", async () => {
    const first = Promise.withResolvers<object>();
    answer = () => first.promise;
    for (let count = 1; count <= 202; count += 1) record(String(count));
    first.resolve({});
    await events.flush();
    expect([sent.length, messages().at(-1)]).toEqual([200, "200"]);
    record("later");
    await events.flush();
    expect(messages().at(-1)).toBe("later");
  });
});
