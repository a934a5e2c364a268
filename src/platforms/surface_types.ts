import { ApiError } from "../errors.ts";

/**
 * The surface types of platforms: what each is called and whether its managed service is open (specification
 * §1).
 */
export const surfaceTypes = {
  agentic_api: { title: "Agentic API", open: true },
  conversational_ai: { title: "Conversational AI", open: false },
  meetings: { title: "Meetings", open: false },
  physical_ai: { title: "Physical AI", open: false },
} as const satisfies Record<string, { title: string; open: boolean }>;

/** Throws `surface_not_available` for a surface type that is unknown or not open yet. */
export function checkSurface(surfaceType: string): void {
  const known = Object.entries(surfaceTypes).find(([identifier]) => identifier === surfaceType)?.[1];
  if (known === undefined) throw new ApiError("surface_not_available", "surface_type: unknown");
  if (!known.open) throw new ApiError("surface_not_available", `${known.title} is not available yet`);
}
