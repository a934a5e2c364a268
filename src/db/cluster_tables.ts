export type OperatorClusterRow = { cluster_id: string; epoch: number; seen_at: Date };

/** The one cluster that the shared token is good for. */
export type OperatorTokenClusterRow = { single: boolean; cluster_id: string };

export type NamespaceBindingRow = {
  account_id: string;
  cluster_id: string;
  namespace: string;
  /** Null sets no bound. */
  ceiling: string[] | null;
  four_eyes: boolean;
  asked_at: Date;
  /** Null until the owner has accepted it. */
  accepted_at: Date | null;
};

export type ClusterApproverRow = {
  approver_id: string;
  account_id: string;
  cluster_id: string;
  username: string;
  linked_at: Date;
};

/** The ceiling that the platform of an object had last. */
export type DeclaredCeilingRow = {
  account_id: string;
  cluster_id: string;
  namespace: string;
  name: string;
  ceiling: string[];
};

/** What an account's owner has confirmed that an object may take over. */
export type AdoptionRow = {
  kind: "platform" | "agent";
  adopted_id: string;
  account_id: string;
  cluster_id: string;
  namespace: string;
  name: string;
  confirmed_at: Date;
};

/** An object that something was taken over from. */
export type ReleasedObjectRow = { external_id: string; released_at: Date };
