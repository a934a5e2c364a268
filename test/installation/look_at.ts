import type { SeenFigure, ServiceApi } from "../support/service_world.ts";

/** Reads figures of the parts of a service that is there by the time they are asked for. */
export function lookAt(service: () => ServiceApi) {
  async function figureOf(part: string, name: string): Promise<SeenFigure> {
    const { figures } = await service().look(part);
    const found = figures[name];
    if (found === undefined) throw new Error(`There is no ${name} among ${Object.keys(figures).join(", ")}`);
    return found;
  }

  /** What a figure says and is judged. */
  async function saidOf(part: string, name: string): Promise<[unknown, unknown, unknown]> {
    const { value, state, alert } = await figureOf(part, name);
    return [value, state, alert];
  }

  return { figureOf, saidOf };
}
