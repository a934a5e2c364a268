/** Roles that a client's certificate can give; `backup` takes backups and does nothing else. */
export const REMOTE_ROLES = ["api", "admin", "auditor", "backup"] as const;

/** One of them. */
export type RemoteRole = (typeof REMOTE_ROLES)[number];
