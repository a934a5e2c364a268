export type OperatorClusterRow = { cluster_id: string; epoch: number; seen_at: Date };

/** The one cluster in which the shared operator token is valid. */
export type OperatorTokenClusterRow = { single: boolean; cluster_id: string };

export type NamespaceBindingRow = {
  account_id: string;
  cluster_id: string;
  namespace: string;
  /** Null means that the ceiling is unlimited. */
  ceiling: string[] | null;
  four_eyes: boolean;
  asked_at: Date;
  /** Null until the owner has accepted the binding. */
  accepted_at: Date | null;
  /** The owner who accepted the namespace or changed its limits last. Null if not accepted, or not known. */
  accepted_by: string | null;
  /** The uid of the accepted or asking namespace in Kubernetes. Null until the operator has reported one. */
  namespace_uid: string | null;
};

export type ClusterApproverRow = {
  approver_id: string;
  account_id: string;
  cluster_id: string;
  username: string;
  linked_at: Date;
  /** The member whose role decides. Null if not known: in an organization, the user then decides nothing. */
  member_id: string | null;
  /** The owner who linked the user. Null if not known. */
  linked_by: string | null;
};

/** The platform ceiling that a Kubernetes object declared last. */
export type DeclaredCeilingRow = {
  account_id: string;
  cluster_id: string;
  namespace: string;
  name: string;
  ceiling: string[];
};

/** The owner's confirmation that a Kubernetes object may take over an existing platform or agent. */
export type AdoptionRow = {
  kind: "platform" | "agent";
  adopted_id: string;
  account_id: string;
  cluster_id: string;
  namespace: string;
  name: string;
  confirmed_at: Date;
  /** The owner who confirmed it. Null if not known. */
  confirmed_by: string | null;
};

/** A Kubernetes object whose platform or agent was taken over by another object. */
export type ReleasedObjectRow = { external_id: string; released_at: Date };
