import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { WRONG_SETTING } from "../../../src/config.ts";
import { IDENTITY_NAME } from "../../../src/operator/cluster/cluster_identity.ts";
import type { DelegationStatus } from "../../../src/operator/kinds.ts";
import { testCluster } from "../../support/kubernetes/existing.ts";
import { approve } from "../../support/platform_world.ts";
import { until } from "../../support/process.ts";
import { killRoles, type RoleProcess, startRole } from "../../support/role_process.ts";
import { agent, delegation, platform } from "../operator_folder.ts";
import type { OperatorCluster } from "./operator_cluster.ts";
import { type RealCluster, startRealCluster } from "./real_cluster.ts";

const BUILD_TIMEOUT_MS = 20 * 60_000;
const { missing, open } = await testCluster();
if (missing !== undefined) console.error(`SKIPPED, missing: ${missing}`);

describe.skipIf(missing !== undefined)(
  "an operator with another cluster id than before",
  { timeout: 120_000 },
  () => {
    let real: RealCluster;
    const processes: RoleProcess[] = [];

    beforeAll(async () => {
      real = await startRealCluster(await open());
    }, BUILD_TIMEOUT_MS);
    afterEach(() => killRoles(processes));
    afterAll(() => real?.stop());

    function startProcess({ config }: OperatorCluster, clusterId: string): RoleProcess {
      const { API_URL, OPERATOR_API_URL, CONSOLE_URL, OPERATOR_TOKEN = "" } = config;
      const { KUBECONFIG = "", OPERATOR_NAMESPACE = "", WATCH_NAMESPACES = [] } = config;
      const operator = startRole("operator", {
        ...{ API_URL, OPERATOR_API_URL, CONSOLE_URL, OPERATOR_TOKEN, KUBECONFIG, OPERATOR_NAMESPACE },
        WATCH_NAMESPACES: WATCH_NAMESPACES.join(","),
        CLUSTER_ID: clusterId,
        DEVELOPMENT: "true",
      });
      processes.push(operator);
      return operator;
    }

    test("exits, and lets no object disappear whose certificate still counts", async () => {
      const { world, person, cluster } = await real.open();
      try {
        const path = `/v1/service/namespace-bindings/${cluster}/${world.namespace}`;
        await person.client.call("PUT", path, { body: {} });
        const former = await world.start();
        await world.apply(platform(), agent(), delegation());
        const { requestID } = (await world.reaches("Delegation", "bot", "AwaitingApproval"))
          .status as DelegationStatus;
        await approve(person, String(requestID), ["data:read"]);
        const { certID } = (await world.reaches("Delegation", "bot", "Active")).status as DelegationStatus;
        const certificate = async () =>
          (await person.client.get(`/v1/service/delegations/${certID}`)).body.status;
        await former.stop();

        const refused = startProcess(world, `${cluster}-new`);
        expect(await refused.exit, refused.errors()).toBe(WRONG_SETTING);
        expect(refused.log.at(-1)?.msg).toContain(
          `The cluster id is ${cluster}-new, but the ConfigMap ${world.systemNamespace}/${IDENTITY_NAME} records ${cluster}`,
        );

        const map = `/api/v1/namespaces/${world.systemNamespace}/configmaps/${IDENTITY_NAME}`;
        await real.kubernetes.call("DELETE", map);
        world.config.CLUSTER_ID = `${cluster}-new`;
        const other = await world.start();
        await world.reaches("Delegation", "bot", "ExternalMissing");
        await world.remove("Delegation", "bot");
        await until("the operator has tried to revoke", async () => {
          const { status } = await world.reaches("Delegation", "bot", "ExternalMissing");
          return status.conditions?.some(({ message }) => message.includes("nothing was revoked")) === true;
        });
        expect(await certificate()).toBe("approved");
        await other.stop();

        await real.kubernetes.call("DELETE", map);
        world.config.CLUSTER_ID = cluster;
        await world.start();
        await world.gone("Delegation", "bot");
        expect(await certificate()).toBe("revoked");
      } finally {
        await world.dispose();
      }
    });

    test("runs as a process with the id that the cluster records", async () => {
      const { world, cluster } = await real.open();
      try {
        for (const _ of ["first start", "second start"]) {
          const operator = startProcess(world, cluster);
          await operator.ready();
          expect(await operator.end()).toBe(0);
        }
      } finally {
        await world.dispose();
      }
    });
  },
);
