import { expect, test } from "vitest";
import { type ClusterTourOptions, readClusterTour } from "../../../../src/dev/tour/cluster/options.ts";
import { UserError } from "../../../../src/dev/user_error.ts";

const usual: ClusterTourOptions = {
  release: "deputize",
  releaseNamespace: "deputize-system",
  webhooks: true,
  timeout: "120",
};
const read = (given: Partial<ClusterTourOptions>) => readClusterTour({ ...usual, ...given });

test("readClusterTour defaults to kubectl's current cluster, a new namespace and the mailbox", () => {
  expect(read({})).toEqual({
    common: [],
    release: "deputize",
    releaseNamespace: "deputize-system",
    namespace: undefined,
    email: undefined,
    asksForCode: false,
    webhooks: true,
    timeoutMs: 120_000,
    removalMs: 120_000,
  });
});

test("the removal timeout is at least 30 seconds", () => {
  expect(read({ timeout: "29" })).toMatchObject({ timeoutMs: 29_000, removalMs: 30_000 });
  expect(read({ timeout: "31" })).toMatchObject({ timeoutMs: 31_000, removalMs: 31_000 });
});

test("kubeconfig and context become arguments of every kubectl call", () => {
  expect(read({ kubeconfig: "a b.yaml", context: "c" }).common).toEqual([
    "--kubeconfig=a b.yaml",
    "--context=c",
  ]);
});

test.each([
  { timeout: "1" },
  { timeout: "3600" },
  { namespace: "a" },
  { namespace: `a${"b".repeat(61)}c` },
  { email: "jane@example.test" },
  { mailCode: "-" },
])("readClusterTour accepts %j", (given) => {
  expect(() => read(given)).not.toThrow();
});

test.each([
  [{ timeout: "0" }, '--timeout "0" is not a number of seconds'],
  [{ timeout: "3601" }, '--timeout "3601" is not a number of seconds'],
  [{ timeout: "1e2" }, '--timeout "1e2" is not a number of seconds'],
  [{ namespace: "-a" }, '--namespace "-a" is not a name in Kubernetes'],
  [{ namespace: `a${"b".repeat(62)}c` }, "is not a name in Kubernetes"],
  [{ release: "A" }, '--release "A" is not a name in Kubernetes'],
  [{ releaseNamespace: "" }, '--release-namespace "" is not a name in Kubernetes'],
  [{ email: "jane" }, '--email "jane" is not an e-mail address'],
  [{ mailCode: "123456" }, '--mail-code accepts only "-", not "123456"'],
])("readClusterTour rejects %j with one sentence", (given, sentence) => {
  const thrown = (() => {
    try {
      return read(given);
    } catch (error) {
      return error;
    }
  })();
  expect(thrown).toBeInstanceOf(UserError);
  expect((thrown as UserError).message).toContain(sentence);
  expect((thrown as UserError).status).toBe(2);
});
