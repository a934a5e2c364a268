import { openDatabase } from "../../../src/db/database.ts";
import { appliedMigrations } from "../../../src/db/schema_state.ts";
import type { Target } from "../load/load.ts";
import { NAMESPACE, RELEASE } from "../support/release.ts";
import type { Tools } from "../support/tools.ts";

type Named = { metadata: { name: string } };

/**
 * Returns the objects that must survive the uninstallation: definitions, volumes, and the Secrets that they
 * need.
 */
export async function remainingObjects(
  tools: Tools,
): Promise<{ definitions: string[]; volumes: string[]; secrets: string[] }> {
  const names = async (...args: string[]) => {
    const { items } = await tools.read<{ items: Named[] }>(...args);
    return items.map(({ metadata }) => metadata.name).toSorted();
  };
  const ours = ["-l", `app.kubernetes.io/instance=${RELEASE}`];
  const definitions = (await names("get", "customresourcedefinitions")).filter((name) =>
    name.endsWith(".deputize.io"),
  );
  return {
    definitions,
    volumes: await names("-n", NAMESPACE, "get", "persistentvolumeclaims", ...ours),
    secrets: (await names("-n", NAMESPACE, "get", "secrets", ...ours)).filter((name) =>
      name.includes("trial"),
    ),
  };
}

export async function schemaOf({ databaseUrl }: Pick<Target, "databaseUrl">): Promise<readonly string[]> {
  const database = openDatabase({ url: databaseUrl, name: "schema", max: 1, onError: () => undefined });
  try {
    return await appliedMigrations(database);
  } finally {
    await database.destroy();
  }
}
