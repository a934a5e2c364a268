import type { Kubectl } from "../kubectl.ts";

/** A user as the cluster knows them. */
export type User = { username: string; uid?: string; groups?: string[] };

/** Who makes the calls, also where somebody else is impersonated. */
export async function whoAmI(kubectl: Kubectl): Promise<User> {
  const { status } = await kubectl.json<{ status: { userInfo: User } }>(["auth", "whoami"]);
  return status.userInfo;
}
