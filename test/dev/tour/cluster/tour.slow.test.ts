import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { customerSteps } from "../../../../src/dev/tour/customer_steps.ts";
import { signIn } from "../../../../src/dev/tour/person.ts";
import { tourSteps } from "../../../../src/dev/tour/steps.ts";
import { kubernetesBinary, missingControllers } from "../../../support/kubernetes/binary.ts";
import { until } from "../../../support/process.ts";
import { type RunningTour, startTourCluster, type TourCluster } from "./tour_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const OWNER = "tour@example.test";
const STEPS = [...tourSteps, ...customerSteps];
const NAMES = STEPS.map(({ name }) => name);
const PREPARED = ["release_found", "api_reached", "namespace_made", "receiver_ready"];
const { path = "", missing: missingBinary } = await kubernetesBinary();
const missing = missingBinary ?? (await missingControllers());
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

type Shown = { step: string; ok: boolean; ms: number; detail: string };

/** The cluster has no nodes. API, vault, worker and operator run as processes outside the cluster. */
describe.skipIf(missing !== undefined)("the cluster tour", { timeout: 240_000 }, () => {
  let cluster: TourCluster;

  beforeAll(async () => {
    cluster = await startTourCluster(path);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.stop());

  const items = async (path: string) =>
    (await cluster.kubernetes.call("GET", path)).body.items as { metadata: { name: string } }[];
  const namesAt = async (path: string) => (await items(path)).map(({ metadata }) => metadata.name);

  async function traces() {
    const objects = await Promise.all(
      ["platforms", "agents", "delegations"].map((kind) => namesAt(`/apis/deputize.io/v1alpha1/${kind}`)),
    );
    const namespaces = await namesAt("/api/v1/namespaces");
    const maps = await namesAt("/api/v1/namespaces/deputize-system/configmaps");
    const { person } = await signIn(cluster.apiUrl, OWNER);
    const { namespace_bindings: bindings } = await person.call<{ namespace_bindings: { cluster: string }[] }>(
      "GET",
      "/v1/service/namespace-bindings",
    );
    const { items: platforms } = await person.call<{ items: { name: string }[] }>(
      "GET",
      "/v1/service/platforms",
    );
    return {
      objects: objects.flat(),
      namespaces: namespaces.filter((name) => name.startsWith("deputize-tour")),
      maps: maps.filter((name) => name.startsWith("deputize-tour")),
      bindings: bindings.filter((binding) => binding.cluster === "tour"),
      platforms: platforms.length,
    };
  }
  const NOTHING = { objects: [], namespaces: [], maps: [], bindings: [], platforms: 0 };

  const stepsOf = ({ said }: RunningTour): Shown[] =>
    said.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  const reached = (tour: RunningTour, step: string) =>
    until(`${step} is done`, () => tour.said.out.includes(`"step":"${step}","ok":true`), 120_000);

  test("prints the steps of npm start as JSON objects, and leaves nothing behind", async () => {
    const tour = cluster.run({ json: true });
    expect(await tour.exit, tour.said.out + tour.said.err).toBe(0);
    const steps = stepsOf(tour);
    expect(steps.map(({ step }) => step)).toEqual([...PREPARED, ...NAMES, "removed"]);
    for (const step of steps) {
      expect(Object.keys(step)).toEqual(["step", "ok", "ms", "detail"]);
      expect(step.ok).toBe(true);
    }
    const detailOf = (name: string) => steps.find(({ step }) => step === name)?.detail;
    expect(detailOf("approval_delivered")).toMatch(/^delegation\.approved, delivery .*, signature checked$/);
    expect(detailOf("verified_allow")).toMatch(/^allow authorized, receipt sha256:/);
    expect(detailOf("audited")).toBe("deny delegation_revoked, deny not_delegated, allow authorized");
    expect(detailOf("company_lent")).toMatch(/^allow authorized, receipt sha256:/);
    expect(detailOf("company_left")).toMatch(/^connection\.removed, delivery .*401 invalid_api_key$/);
    expect(tour.said.err).toBe("");
    expect(await traces()).toEqual(NOTHING);
  });

  test("prints readable steps in an existing namespace without webhooks", async () => {
    await cluster.kubernetes.call("POST", "/api/v1/namespaces", { metadata: { name: "lab" } });
    const tour = cluster.run({ namespace: "lab", webhooks: false });
    expect(await tour.exit, tour.said.out + tour.said.err).toBe(0);
    for (const { title } of STEPS) expect(tour.said.out).toContain(`\nok   ${title} `);
    expect(tour.said.out).toContain("\nThe main job: a person lends an agent authority, and takes it back\n");
    expect(tour.said.out).toContain("     delegation.approved, without a receiver\n");
    expect(await namesAt("/api/v1/namespaces")).toContain("lab");
    expect(await namesAt("/api/v1/namespaces/lab/pods")).toEqual([]);
    expect(await traces()).toEqual(NOTHING);
  });

  test("removes its objects after an interruption and exits with 130", async () => {
    const tour = cluster.run({ json: true });
    await reached(tour, "approved_narrower");
    tour.child.kill("SIGINT");
    expect(await tour.exit, tour.said.out + tour.said.err).toBe(130);
    expect(stepsOf(tour).at(-1)).toMatchObject({ step: "removed", ok: true });
    expect(await traces()).toEqual(NOTHING);
  });

  test("removes its objects after a failure, prints one sentence and exits with 1", async () => {
    cluster.operator.kill("SIGSTOP");
    const tour = cluster.run({ json: true, timeout: "3" });
    try {
      expect(await tour.exit, tour.said.out + tour.said.err).toBe(1);
    } finally {
      cluster.operator.kill("SIGCONT");
    }
    const [failed, removed] = stepsOf(tour).slice(-2);
    expect(failed).toMatchObject({ step: "platform_registered", ok: false });
    expect(removed).toMatchObject({ step: "removed", ok: true });
    expect(tour.said.err).toBe(
      '"platform.yaml becomes a platform with an API key" did not go as expected: ' +
        "the expected state of the platform did not appear within 3 s: the operator has not seen it\n",
    );
    expect(await traces()).toEqual(NOTHING);
  });

  test("prints the commands that remove its objects if it cannot remove them", async () => {
    const tour = cluster.run({ json: true, timeout: "5" });
    await reached(tour, "agent_keyed");
    cluster.operator.kill("SIGSTOP");
    try {
      tour.child.kill("SIGINT");
      expect(await tour.exit, tour.said.out + tour.said.err).toBe(130);
    } finally {
      cluster.operator.kill("SIGCONT");
    }
    expect(stepsOf(tour).at(-1)).toMatchObject({ step: "removed", ok: false });
    const [namespace] = (await traces()).namespaces;
    expect(tour.said.err).toContain("Left in the cluster; to remove it:");
    for (const line of [
      `kubectl delete namespace/${namespace} --ignore-not-found`,
      "kubectl delete configmap/",
    ]) {
      expect(tour.said.err).toContain(line);
    }
  });
});
