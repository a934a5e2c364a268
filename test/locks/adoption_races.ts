import { expect } from "vitest";
import { declaration } from "../platforms/declarations.ts";
import { type DeclaredScene, declaredScene, newId } from "./declared_scene.ts";
import { CONNECTIONS, owned, type RaceRow, removeConnection } from "./races.ts";

const NOT_CONFIRMED = ["409 adoption_not_confirmed"];
const place = (name: string) => ({ cluster: "c1", namespace: "default", name });

/** An object takes over a platform that another call removes. */
export const platformAdoption: RaceRow = {
  title: "that another call removes while the object takes it over",
  gets: NOT_CONFIRMED,
  async prepare(api) {
    const own = await owned(api);
    const { platformId } = own.platform;
    const path = `/v1/service/platforms/${platformId}/adoption`;
    await own.person.client.call("PUT", path, { body: place("shop") });
    const object = { namespace: "default", name: "shop" };
    const body = declaration(own.person, { object, adopt: platformId });
    return {
      holds: ["select from platforms where platform_id = $1 for share", platformId],
      meanwhile: removeConnection(own),
      call: () => api.operator("PUT", `/internal/v1/platforms/${newId()}`, body),
    };
  },
};

/** An object takes over an agent that another call deletes. */
function agentAdoption(
  title: string,
  gets: string[],
  name: string,
  adoptedBy: (scene: DeclaredScene) => Promise<string | undefined>,
): RaceRow {
  return {
    title,
    gets,
    async prepare(api) {
      const scene = await declaredScene(api);
      const adopt = await adoptedBy(scene);
      const body = {
        ...{ object: { namespace: "default", name }, platform_external_id: scene.id },
        ...{ name: "bot", agent_type: "robot", ...(adopt !== undefined && { adopt }) },
      };
      return {
        holds: ["select from agents where external_id = $1 for share", scene.agentId],
        meanwhile: ["update agents set disabled_at = now() where external_id = $1", scene.agentId],
        call: () => api.operator("PUT", `/internal/v1/agents/${newId()}`, body),
        check([answer]) {
          expect(answer?.body.disabled ?? false).toBe(false);
        },
      };
    },
  };
}

export const agentAdoptions: RaceRow[] = [
  agentAdoption("whose former agent another call deletes", ["200"], "bot", async () => undefined),
  agentAdoption(
    "while another call deletes the agent that the object takes over",
    NOT_CONFIRMED,
    "other",
    async ({ api, person, platform, agentId }) => {
      const agent = await api.db("agents").where({ external_id: agentId }).first();
      const path = `${CONNECTIONS}/${platform.connectionId}/agents/${agent?.agent_id}/adoption`;
      await person.client.call("PUT", path, { body: place("other") });
      return agent?.agent_id;
    },
  ),
];
