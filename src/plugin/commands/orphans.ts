import { type Context, operatorNamespaceOf } from "../command.ts";
import { Failure, KubectlFailure, type KubernetesObject } from "../kubectl.ts";
import { relative, table, visible, wrapped } from "../text.ts";

type Orphan = {
  externalID: string;
  namespace: string | null;
  name: string | null;
  status: string;
  since: string;
  revokeAt?: string;
  confirmed?: true;
};
type SweepRecord = {
  checkedAt: string;
  epoch: number;
  state: "ok" | "held";
  why?: string;
  items: Orphan[];
  more?: number;
};

const NAME = "deputize-orphans";
const CONFIRMED = "deputize.io/confirmed";

/** Shows delegations in force without an object. With `--confirm`, lets the operator revoke them. */
export async function showOrphans(context: Context): Promise<void> {
  const { terminal, clock, options } = context;
  const record = await read(context);
  if (options.output === "json") {
    terminal.out(`${JSON.stringify(record, undefined, 2)}\n`);
  } else {
    show(context, record, clock.now());
  }
  if (options.confirm === true) await confirm(context, record);
}

async function read(context: Context): Promise<SweepRecord> {
  const args = ["get", "configmap", NAME, "-n", operatorNamespaceOf(context.options)];
  try {
    const { data } = await context.kubectl.json<KubernetesObject & { data?: Record<string, string> }>(args);
    return JSON.parse(data?.["orphans.json"] ?? "") as SweepRecord;
  } catch (error) {
    const isUnwritten = error instanceof SyntaxError || (error instanceof KubectlFailure && error.isMissing);
    if (!isUnwritten) throw error;
    const place = `${operatorNamespaceOf(context.options)}/${NAME}`;
    throw new Failure(
      `The operator has recorded nothing yet in configmap ${place}; it checks every 10 minutes`,
    );
  }
}

function show({ terminal }: Context, record: SweepRecord, now: Date): void {
  const { items, more = 0, state, why, checkedAt } = record;
  if (items.length === 0) {
    terminal.out(`Every delegation has its object (checked ${relative(checkedAt, now)}).\n`);
    return;
  }
  const columns = [
    {
      heading: "DELEGATION",
      of: ({ namespace, name, externalID }: Orphan) => (name === null ? externalID : `${namespace}/${name}`),
    },
    { heading: "STATUS", of: ({ status }: Orphan) => status },
    { heading: "SEEN", of: ({ since }: Orphan) => relative(since, now) },
    {
      heading: "REVOKED",
      of: ({ revokeAt, confirmed }: Orphan) =>
        state === "held" && confirmed !== true ? "held" : relative(revokeAt, now) || "never",
    },
    { heading: "EXTERNAL ID", of: ({ externalID }: Orphan) => externalID, dropsAt: 1 },
  ];
  terminal.out(table(items, columns, terminal.width));
  if (more > 0) terminal.out(`… and ${more} more\n`);
  if (state === "held") terminal.out(`\n${wrapped(visible(why ?? "They are held."), terminal.width)}\n`);
}

async function confirm(context: Context, { state, epoch, items }: SweepRecord): Promise<void> {
  const { kubectl, terminal, options } = context;
  if (state !== "held") throw new Failure("No delegation is held, so there is nothing to confirm");
  const question = `Let the operator revoke these ${items.length} delegations after its grace period?`;
  if (options.yes !== true && !(await terminal.confirm(question))) throw new Failure("They remain held");
  const mark = `${CONFIRMED}=${epoch}`;
  await kubectl.run([
    "annotate",
    "configmap",
    NAME,
    mark,
    "--overwrite",
    "-n",
    operatorNamespaceOf(context.options),
  ]);
  terminal.note("Confirmed; the operator revokes them in its first check after the grace period.\n");
}
