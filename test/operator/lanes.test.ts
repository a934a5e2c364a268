import { describe, expect, test } from "vitest";
import { type Key, keyText } from "../../src/operator/kinds.ts";
import { createLanes } from "../../src/operator/queue.ts";

const key = (namespace: string, name: string): Key => ({ kind: "Delegation", namespace, name });

function lanesOf(...waiting: [Key, boolean][]) {
  const lanes = createLanes();
  for (const [each, urgent] of waiting) lanes.push(keyText(each), each, urgent);
  return lanes;
}

function drain(lanes: ReturnType<typeof createLanes>): string[] {
  const order: string[] = [];
  for (let id = lanes.shift(); id !== undefined; id = lanes.shift()) {
    order.push(id.replace("Delegation/", ""));
  }
  return order;
}

describe("the queue's lanes", () => {
  test("return the keys of one namespace in their order", () => {
    const lanes = lanesOf([key("a", "1"), false], [key("a", "2"), false], [key("a", "3"), false]);
    expect(drain(lanes)).toEqual(["a/1", "a/2", "a/3"]);
  });

  test("alternate between namespaces, however many keys one namespace adds", () => {
    const crowd = Array.from({ length: 100 }, (_, index): [Key, boolean] => [key("a", `${index}`), false]);
    const order = drain(lanesOf(...crowd, [key("b", "1"), false], [key("c", "1"), false]));
    expect(order.indexOf("b/1")).toBe(1);
    expect(order.indexOf("c/1")).toBe(2);
    expect(order).toHaveLength(102);
  });

  test("return urgent keys first, but every fourth key is an ordinary one", () => {
    const ordinary = Array.from({ length: 3 }, (_, index): [Key, boolean] => [key("a", `o${index}`), false]);
    const urgent = Array.from({ length: 6 }, (_, index): [Key, boolean] => [key("b", `u${index}`), true]);
    expect(drain(lanesOf(...ordinary, ...urgent))).toEqual([
      "b/u0",
      "b/u1",
      "b/u2",
      "a/o0",
      "b/u3",
      "b/u4",
      "b/u5",
      "a/o1",
      "a/o2",
    ]);
  });

  test("contain each key only once", () => {
    const lanes = lanesOf(
      [key("a", "1"), false],
      [key("a", "1"), false],
      [key("a", "1"), true],
      [key("a", "1"), false],
    );
    expect(lanes.size()).toBe(1);
    expect(drain(lanes)).toEqual(["a/1"]);
  });

  test("move a waiting key to the urgent lane", () => {
    const lanes = lanesOf([key("a", "1"), false], [key("a", "2"), false], [key("a", "2"), true]);
    expect(drain(lanes)).toEqual(["a/2", "a/1"]);
  });
});
