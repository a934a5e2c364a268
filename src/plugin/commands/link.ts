import { type Command, shared, textOf } from "../command.ts";
import { Failure, whoAmI } from "../kubectl.ts";
import { visible, wrapped } from "../text.ts";
import { readClusterId } from "./cluster_id.ts";

/**
 * The command `link`: shows the user's name in this cluster, and what the account's owner must confirm so
 * that the user's decisions count.
 */
export const link: Command = {
  summary: "Show your user name, and how to make your decisions count",
  usage: "",
  named: "none",
  options: {
    "cluster-id": { takes: "id", help: "the cluster id, if you may not read the operator's record of it" },
    "operator-namespace": shared.operatorNamespace,
    output: shared.output,
  },
  async run(context) {
    const { kubectl, terminal, options } = context;
    const { username } = await whoAmI(kubectl);
    const given = textOf(options, "cluster-id");
    const { id, place, fault } = await readClusterId(context);
    if (id !== undefined && given !== undefined && given !== id) {
      throw new Failure(`The operator records the cluster id ${id} in configmap ${place}, not ${given}`);
    }
    const cluster = id ?? given;
    if (fault === "missing" || cluster === undefined) throw new Failure(explained(place, fault));
    if (id === undefined) {
      terminal.note(`Nobody has checked that the operator uses the cluster id ${visible(cluster)}.\n`);
    }
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
      "An owner of the account must send this call, signed in to the service. For another member of an organization, the owner adds that member's member_account_id:";
    terminal.out(`${wrapped(text, terminal.width)}\n\n`);
    terminal.out(`  POST /v1/service/cluster-approvers\n  ${visible(JSON.stringify(body))}\n\n`);
    terminal.out(
      `${wrapped("After that your decisions count as this member's for the account's platforms in this cluster, as far as RBAC lets you write them and the member's role permits approvals.", terminal.width)}\n`,
    );
  },
};

function explained(place: string, fault: "missing" | "forbidden" | undefined): string {
  return fault === "forbidden"
    ? `You may not read configmap ${place}: ask an administrator for the cluster id, and pass it with --cluster-id`
    : `There is no configmap ${place}, so the service knows no operator of this cluster. If the operator is in another namespace, pass --operator-namespace`;
}
