import { type Command, shared, textOf } from "../command.ts";
import { type KubernetesObject, whoAmI } from "../kubectl.ts";
import { visible, wrapped } from "../text.ts";

/**
 * The command `link`: shows the user's name in this cluster, and what the account's owner must confirm so
 * that the user's decisions count.
 */
export const link: Command = {
  summary: "Show your user name, and how to make your decisions count",
  usage: "",
  named: "none",
  options: {
    "cluster-id": { takes: "id", help: "the operator's CLUSTER_ID, if it has one" },
    output: shared.output,
  },
  async run({ kubectl, terminal, options }) {
    const { username } = await whoAmI(kubectl);
    const cluster = textOf(options, "cluster-id") ?? (await idOf());
    const body = { cluster, username };
    if (options.output === "json") {
      terminal.out(`${JSON.stringify(body, undefined, 2)}\n`);
      return;
    }
    const isPerson = !/^system:(serviceaccount|node):/.test(username);
    terminal.out(`User      ${visible(username)}\nCluster   ${visible(cluster)}\n\n`);
    if (!isPerson) {
      terminal.out(
        `${wrapped("Service accounts and nodes cannot approve: sign in as a person.", terminal.width)}\n`,
      );
      return;
    }
    const text =
      "If the operator has a CLUSTER_ID setting, pass it with --cluster-id. An owner of the account must then send this call, signed in to the service. For another member of an organization, the owner adds that member's member_account_id:";
    terminal.out(`${wrapped(text, terminal.width)}\n\n`);
    terminal.out(`  POST /v1/service/cluster-approvers\n  ${visible(JSON.stringify(body))}\n\n`);
    terminal.out(
      `${wrapped("After that your decisions count as this member's for the account's platforms in this cluster, as far as RBAC lets you write them and the member's role permits approvals.", terminal.width)}\n`,
    );

    async function idOf(): Promise<string> {
      const { metadata } = await kubectl.json<KubernetesObject>(["get", "namespace", "kube-system"]);
      return metadata.uid ?? "";
    }
  },
};
