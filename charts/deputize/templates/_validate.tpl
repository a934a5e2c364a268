{{/* Refuses values that cannot work, each with its own message. */}}
{{- define "deputize.validate" -}}
{{- include "deputize.validateNames" . -}}
{{- include "deputize.validateNetworks" . -}}
{{- include "deputize.validateOperator" . -}}
{{- if .Values.trial.enabled -}}
{{- include "deputize.validateTrial" . -}}
{{- else -}}
{{- include "deputize.validateSecrets" . -}}
{{- end -}}
{{- include "deputize.validatePeers" . -}}
{{- include "deputize.validateApi" . -}}
{{- include "deputize.validateKafka" . -}}
{{- include "deputize.validateOneRelease" . -}}
{{- end -}}

{{/* Names of Services begin with the name of the release, and of a chart that an umbrella chart may rename. */}}
{{- define "deputize.validateNames" -}}
{{- $name := include "deputize.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "The names of Services would begin with %s. Choose a release name of lower-case letters, digits and hyphens that begins with a letter, or set fullnameOverride." $name) -}}
{{- end -}}
{{- end -}}

{{- define "deputize.validateOperator" -}}
{{- include "deputize.validateUnwatched" . -}}
{{- with .Values.operator -}}
{{- if .enabled -}}
{{- if gt (len (compact (list .watchNamespaces .namespaceSelector .allNamespaces))) 1 -}}
{{- fail "Set only one of operator.watchNamespaces, operator.namespaceSelector and operator.allNamespaces. They name the namespaces, select them by labels, or mean all of them." -}}
{{- end -}}
{{- if and .namespaceSelector (not (include "deputize.namespaceSelector" .)) -}}
{{- fail "operator.namespaceSelector has no label, so it would select every namespace. Name a label, or set operator.allNamespaces=true." -}}
{{- end -}}
{{- range .namespaceSelector.matchExpressions -}}
{{- $needsValues := has .operator (list "In" "NotIn") -}}
{{- if ne $needsValues (not (empty .values)) -}}
{{- fail (printf "operator.namespaceSelector: the operator %s of the label %s needs %s." .operator .key (ternary "values" "no values" $needsValues)) -}}
{{- end -}}
{{- end -}}
{{- if not (or $.Values.trial.enabled .watchNamespaces .namespaceSelector .allNamespaces) -}}
{{- fail "Say where the operator works: operator.watchNamespaces names the namespaces, operator.namespaceSelector selects them by labels, or operator.allNamespaces=true means all of them. The last two give rights on Secrets everywhere." -}}
{{- end -}}
{{- if and (not $.Values.admissionPolicies.enabled) (not .watchNamespaces) -}}
{{- fail "admissionPolicies.enabled=false needs operator.watchNamespaces: without the policies the operator's rights must end at named namespaces." -}}
{{- end -}}
{{- if and (has $.Release.Namespace .watchNamespaces) (not $.Values.trial.enabled) -}}
{{- fail (printf "operator.watchNamespaces has %s, where the release is: the operator could read every Secret of the release there. Give applications namespaces of their own." $.Release.Namespace) -}}
{{- end -}}
{{- $created := list -}}
{{- range include "deputize.extraObjects" $ | fromYamlArray -}}
{{- if eq .kind "Namespace" -}}
{{- $created = append $created .metadata.name -}}
{{- end -}}
{{- end -}}
{{- /* Without a cluster, such as in helm template, no namespace is found. */ -}}
{{- if lookup "v1" "Namespace" "" "default" -}}
{{- range ternary .watchNamespaces list .requireNamespaces -}}
{{- $namespace := lookup "v1" "Namespace" "" . -}}
{{- if not (or $namespace (has . $created)) -}}
{{- fail (printf "operator.watchNamespaces has %s, and the cluster has no such namespace. Create it first, or leave it out. If another chart of this release creates it, set operator.requireNamespaces=false." .) -}}
{{- end -}}
{{- if dig "metadata" "deletionTimestamp" "" $namespace -}}
{{- fail (printf "operator.watchNamespaces has %s, and this namespace is being deleted. Wait until it is gone and create it again, or leave it out." .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $id := include "deputize.clusterId" $ -}}
{{- if not $id -}}
{{- fail "operator.clusterId is empty. Give this cluster a name that is never changed, such as prod-eu; under another one every object is registered again." -}}
{{- end -}}
{{- $recorded := dig "data" "clusterID" "" (lookup "v1" "ConfigMap" $.Release.Namespace "deputize-cluster" | default dict) -}}
{{- if and $recorded (ne $recorded $id) -}}
{{- fail (printf "operator.clusterId is %s, but the ConfigMap deputize-cluster records %s. Set it to %s: under another id nobody can revoke the authority of existing objects. If the recorded id is the wrong one, or to change the id, see docs/operator.md." $id $recorded $recorded) -}}
{{- end -}}
{{- range $.Values.api.clusters -}}
{{- if eq .id $id -}}
{{- fail (printf "api.clusters has the id %s, which is operator.clusterId. Each cluster needs its own id." .id) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses to end the watch of a namespace whose objects only the operator can let disappear. Otherwise neither these
     objects nor the namespace could be deleted. An operator without WATCH_NAMESPACES works in all namespaces. */}}
{{- define "deputize.validateUnwatched" -}}
{{- $isOn := not (not .Values.operator.enabled) -}}
{{- $watched := ternary (.Values.operator.watchNamespaces | default list) list $isOn -}}
{{- $former := list -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace (printf "%s-operator" (include "deputize.fullname" .)) -}}
{{- range dig "spec" "template" "spec" "containers" list $live -}}
{{- range .env -}}
{{- if eq .name "WATCH_NAMESPACES" -}}
{{- $former = splitList "," (.value | default "") | compact -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $live (or $watched (not $isOn)) -}}
{{- /* An empty name looks in all namespaces. */ -}}
{{- range $place := $former | default (list "") -}}
{{- if not (has $place $watched) -}}
{{- range $kind := list "Delegation" "Agent" "Platform" -}}
{{- range (lookup "deputize.io/v1alpha1" $kind $place "").items -}}
{{- $namespace := .metadata.namespace -}}
{{- if and (has "deputize.io/revoke" (.metadata.finalizers | default list)) (not (has $namespace $watched)) -}}
{{- $what := ternary "operator.watchNamespaces no longer has" "operator.enabled=false ends the watch of" $isOn -}}
{{- fail (printf "%s %s, where %s %s still is: without the operator nobody could delete it or revoke its authority. First delete the objects there and wait until they are gone, or keep the namespace watched." $what $namespace $kind .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "deputize.validateTrial" -}}
{{- range $section := list "database" "sealingKey" -}}
{{- if (index $.Values $section).existingSecret.name -}}
{{- fail (printf "trial.enabled=true and %s.existingSecret.name are both given. A trial creates this Secret itself; for production set trial.enabled=false." $section) -}}
{{- end -}}
{{- end -}}
{{- if or .Values.ingress.enabled .Values.gateway.enabled -}}
{{- fail "trial.enabled=true and an ingress or gateway are both given. A trial runs in development mode, which must not be reached from outside: use kubectl port-forward." -}}
{{- end -}}
{{- $name := include "deputize.fullname" . -}}
{{- include "deputize.validateStorage" (dict "root" . "name" (printf "%s-postgres" $name) "path" "trial.postgres.storage" "storage" .Values.trial.postgres.storage) -}}
{{- $claim := printf "data-%s-postgres-0" $name -}}
{{- if lookup "v1" "PersistentVolumeClaim" .Release.Namespace $claim -}}
{{- range $secret := list (printf "%s-trial-postgres" $name) (printf "%s-trial-sealing-key" $name) -}}
{{- if not (lookup "v1" "Secret" $.Release.Namespace $secret) -}}
{{- fail (printf "The trial's data exists (PersistentVolumeClaim %s), but the Secret %s, which is needed to read it, does not. Restore the Secret, or delete the claim and all data with it." $claim $secret) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "deputize.validateSecrets" -}}
{{- $wanted := dict "database" "the URL of a Postgres database" "sealingKey" "32 random bytes in base64" "smtp" "the URL of a mail server" -}}
{{- range $section := list "database" "sealingKey" "smtp" -}}
{{- if not (index $.Values $section).existingSecret.name -}}
{{- fail (printf "%s.existingSecret.name is empty. Create a Secret that has %s under the key %s and name it here, or set trial.enabled=true for an evaluation." $section (get $wanted $section) (index $.Values $section).existingSecret.key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "deputize.validatePeers" -}}
{{- if .Values.network.policies.enabled -}}
{{- $peers := .Values.network.peers -}}
{{- $wanted := list -}}
{{- /* In a trial, everybody may call the API, Postgres is in the release, and the API server may be anywhere. */ -}}
{{- if not .Values.trial.enabled -}}
{{- $wanted = list (list "callers" $peers.callers "who calls the API, such as [{ namespaceSelector: {} }] for every pod") (list "database.to" $peers.database.to "where Postgres is") -}}
{{- if include "deputize.servesOperators" . -}}
{{- $wanted = append $wanted (list "apiServer.to" $peers.apiServer.to "where the API server is: kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes shows it") -}}
{{- end -}}
{{- end -}}
{{- if .Values.smtp.existingSecret.name -}}
{{- $wanted = append $wanted (list "smtp.to" $peers.smtp.to "where the mail server is") -}}
{{- end -}}
{{- if .Values.kafka.enabled -}}
{{- $wanted = append $wanted (list "kafka.to" $peers.kafka.to "where the brokers are") -}}
{{- end -}}
{{- if .Values.api.clusters -}}
{{- $wanted = append $wanted (list "operators" $peers.operators "where the operators of api.clusters call from") -}}
{{- end -}}
{{- if .Values.database.existingSecret.directKey -}}
{{- $wanted = append $wanted (list "databaseDirect.to" $peers.databaseDirect.to "where Postgres is without its pooler") -}}
{{- end -}}
{{- if .Values.operator.otlpEndpoint -}}
{{- $wanted = append $wanted (list "tracing.to" $peers.tracing.to "where the collector of operator.otlpEndpoint is") -}}
{{- end -}}
{{- range $wanted -}}
{{- if not (index . 1) -}}
{{- fail (printf "network.peers.%s is empty. Name %s, or set network.policies.enabled=false and restrict the traffic yourself." (index . 0) (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "deputize.validateApi" -}}
{{- with .Values.api -}}
{{- if not $.Values.trial.enabled -}}
{{- if not (hasPrefix "https://" .baseUrl) -}}
{{- fail "api.baseUrl must be the https:// URL that people and applications use, such as https://deputize.example.com." -}}
{{- end -}}
{{- end -}}
{{- $isBehind := or $.Values.ingress.enabled $.Values.gateway.enabled -}}
{{- if and $isBehind (not .trustedProxies) -}}
{{- fail "api.trustedProxies is empty. Behind an ingress or gateway it must name the networks of its pods; otherwise all callers count as a single one." -}}
{{- end -}}
{{- $host := (urlParse .baseUrl).hostname -}}
{{- if $.Values.ingress.enabled -}}
{{- if not (has $host $.Values.ingress.hosts) -}}
{{- fail (printf "ingress.hosts does not have %s, the host of api.baseUrl." $host) -}}
{{- end -}}
{{- end -}}
{{- if $.Values.gateway.enabled -}}
{{- if not $.Values.gateway.parentRefs -}}
{{- fail "gateway.parentRefs is empty. Name the Gateway that the route belongs to." -}}
{{- end -}}
{{- if not (has $host $.Values.gateway.hostnames) -}}
{{- fail (printf "gateway.hostnames does not have %s, the host of api.baseUrl." $host) -}}
{{- end -}}
{{- end -}}
{{- if and (include "deputize.apiScales" $) (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- fail "api.autoscaling.minReplicas is greater than maxReplicas." -}}
{{- end -}}
{{- if lt (int .terminationGracePeriodSeconds) (add (int .drainSeconds) 15) -}}
{{- fail "api.terminationGracePeriodSeconds must be at least 15 more than api.drainSeconds: calls in progress need time to finish." -}}
{{- end -}}
{{- if and .clusters (not .clustersKubeconfigs.existingSecret.name) -}}
{{- fail "api.clusters is given and api.clustersKubeconfigs.existingSecret.name is empty. Name the Secret that has their kubeconfigs." -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "deputize.validateKafka" -}}
{{- with .Values.kafka -}}
{{- if .enabled -}}
{{- if not .brokers -}}
{{- fail "kafka.enabled=true and kafka.brokers is empty. Name the brokers: [<host>:<port>, …]." -}}
{{- end -}}
{{- if and .sasl.mechanism (not (and .sasl.username .sasl.password.existingSecret.name)) -}}
{{- fail "kafka.sasl.mechanism needs kafka.sasl.username and kafka.sasl.password.existingSecret.name." -}}
{{- end -}}
{{- if and .sasl.username (not .sasl.mechanism) -}}
{{- fail "kafka.sasl.username needs kafka.sasl.mechanism." -}}
{{- end -}}
{{- if and (or .tls.ca.existingSecret.name .tls.client.existingSecret.name) (not .tls.enabled) -}}
{{- fail "kafka.tls has certificates and kafka.tls.enabled is false. Set it to true, or leave them out." -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Definitions, policies and roles for people exist once in a cluster, and the policies name one operator. The operator
     of a second release could therefore write no status. */}}
{{- define "deputize.validateOneRelease" -}}
{{- $wholes := list -}}
{{- $policy := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "deputize-status" -}}
{{- $isOfRelease := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $policy -}}
{{- if or .Values.admissionPolicies.enabled (and .Values.operator.enabled $isOfRelease) -}}
{{- $wholes = append $wholes $policy -}}
{{- end -}}
{{- if .Values.rbac.roles -}}
{{- $wholes = append $wholes (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "deputize-editor") -}}
{{- end -}}
{{- range compact $wholes -}}
{{- $owner := .metadata.annotations | default dict -}}
{{- $release := get $owner "meta.helm.sh/release-name" -}}
{{- $namespace := get $owner "meta.helm.sh/release-namespace" -}}
{{- if or (ne $release $.Release.Name) (ne $namespace $.Release.Namespace) -}}
{{- $who := "were applied by other means than Helm" -}}
{{- if $release -}}
{{- $who = printf "belong to the release %s in namespace %s" $release $namespace -}}
{{- end -}}
{{- fail (printf "A cluster can have only one release of this chart: %s %s exists, and the cluster's objects %s. Upgrade that release, or see docs/upgrade.md to take them over." .kind .metadata.name $who) -}}
{{- end -}}
{{- end -}}
{{- end -}}
