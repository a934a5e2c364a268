import type { Database } from "../../db/database.ts";
import { figure, type Part } from "../part.ts";

/** Clusters that are shown at most. */
const SHOWN = 100;

/** The operators that lead in their clusters: since when, and under which epoch. */
export function operatorsPart({ database }: { database: Database }): Part {
  return {
    name: "operators",
    async read(at) {
      const clusters = await database("operator_clusters")
        .orderBy([{ column: "seen_at", order: "desc" }, "cluster_id"])
        .limit(SHOWN);
      const count = figure({ name: "operator_clusters", value: clusters.length, at });
      return [
        count,
        ...clusters.flatMap(({ cluster_id: about, epoch, seen_at }) => [
          figure({ name: "operator_leads_since", about, value: seen_at.toISOString(), unit: "time", at }),
          figure({ name: "operator_epoch", about, value: epoch, at }),
        ]),
      ];
    },
  };
}
