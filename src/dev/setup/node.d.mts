export const NODE_HASHES: Readonly<Record<string, string | undefined>>;
export const NODE_PACKAGE: string;
export const LOCKED_NODE: string;
export function isLockedNode(root: string): boolean;
