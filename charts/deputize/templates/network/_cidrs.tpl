{{/* The first bits of an address, followed by zeros. Empty if the text is no address. Argument: dict "address" "10.0.0.5"
     "bits" 24. */}}
{{- define "deputize.masked" -}}
{{- $groups := list -}}
{{- $isGood := true -}}
{{- $width := 8 -}}
{{- if contains ":" .address -}}
{{- $width = 16 -}}
{{- $halves := splitList "::" .address -}}
{{- $parts := list -}}
{{- range $halves -}}
{{- $parts = append $parts (ternary list (splitList ":" .) (eq . "")) -}}
{{- end -}}
{{- $count := int64 0 -}}
{{- range $parts -}}
{{- $count = add $count (len .) -}}
{{- end -}}
{{- $zeros := list -}}
{{- range until (max 0 (sub 8 $count) | int) -}}
{{- $zeros = append $zeros "0" -}}
{{- end -}}
{{- $isGood = ternary (eq $count 8) (and (eq (len $halves) 2) (lt $count 8)) (eq (len $halves) 1) -}}
{{- range concat (first $parts) $zeros (ternary list (last $parts) (eq (len $halves) 1)) -}}
{{- $isGood = and $isGood (regexMatch "^[0-9a-fA-F]{1,4}$" .) -}}
{{- $groups = append $groups (int64 (printf "0x%s" .)) -}}
{{- end -}}
{{- else if regexMatch "^(0|[1-9][0-9]{0,2})(\\.(0|[1-9][0-9]{0,2})){3}$" .address -}}
{{- range splitList "." .address -}}
{{- $isGood = and $isGood (le (int64 .) 255) -}}
{{- $groups = append $groups (int64 .) -}}
{{- end -}}
{{- end -}}
{{- if and $isGood $groups (le (int64 .bits) (mul $width (len $groups))) -}}
{{- $masked := list -}}
{{- range $index, $group := $groups -}}
{{- $own := min $width (max 0 (sub $.bits (mul $width $index))) -}}
{{- $step := 1 -}}
{{- range until (sub $width $own | int) -}}
{{- $step = mul $step 2 -}}
{{- end -}}
{{- $masked = append $masked (printf (ternary "%x" "%d" (eq $width 16)) (sub $group (mod $group $step))) -}}
{{- end -}}
{{- join (ternary ":" "." (eq $width 16)) $masked -}}
{{- end -}}
{{- end -}}

{{/* Refuses a text that is no network. Argument: dict "network" "10.0.0.0/8" "path" "api.trustedProxies". */}}
{{- define "deputize.validateNetwork" -}}
{{- $parts := splitList "/" .network -}}
{{- $address := first $parts -}}
{{- $all := ternary 128 32 (contains ":" $address) -}}
{{- $bits := ternary (last $parts | int) $all (eq (len $parts) 2) -}}
{{- $whole := include "deputize.masked" (dict "address" $address "bits" $all) -}}
{{- $masked := include "deputize.masked" (dict "address" $address "bits" $bits) -}}
{{- if not $masked -}}
{{- fail (printf "%s has %s, which is neither an IPv4 nor an IPv6 network. Write an address and the number of its first bits, such as 10.0.0.0/8 or fd00::/8." .path .network) -}}
{{- end -}}
{{- if ne $whole $masked -}}
{{- fail (printf "%s has %s, which names one address by more bits than the network has. Write %s/%d for the network, or %s/%d for the address." .path .network $masked $bits $address $all) -}}
{{- end -}}
{{- end -}}

{{/* Refuses a network that is not a part of the network around it. Argument: dict "network" "10.0.0.0/8" "inner"
     "10.1.0.0/16" "path" "network.peers.callers". */}}
{{- define "deputize.validateExcept" -}}
{{- $parts := splitList "/" .network -}}
{{- $inner := splitList "/" .inner -}}
{{- $bits := last $parts | int -}}
{{- $outer := include "deputize.masked" (dict "address" (first $parts) "bits" $bits) -}}
{{- $around := include "deputize.masked" (dict "address" (first $inner) "bits" $bits) -}}
{{- if or (ne $outer $around) (le (last $inner | int) $bits) -}}
{{- fail (printf "%s excepts %s, which is no part of %s." .path .inner .network) -}}
{{- end -}}
{{- end -}}

{{/* Refuses networks of the values that no process and no NetworkPolicy accepts. */}}
{{- define "deputize.validateNetworks" -}}
{{- range .Values.api.trustedProxies -}}
{{- include "deputize.validateNetwork" (dict "network" . "path" "api.trustedProxies") -}}
{{- end -}}
{{- range .Values.api.webhookAllowedCidrs -}}
{{- include "deputize.validateNetwork" (dict "network" . "path" "api.webhookAllowedCidrs") -}}
{{- end -}}
{{- range $name, $value := .Values.network.peers -}}
{{- $path := printf "network.peers.%s" $name -}}
{{- $peers := $value -}}
{{- if kindIs "map" $value -}}
{{- $peers = $value.to -}}
{{- end -}}
{{- range $peers -}}
{{- with .ipBlock -}}
{{- $network := .cidr -}}
{{- include "deputize.validateNetwork" (dict "network" $network "path" $path) -}}
{{- range .except -}}
{{- include "deputize.validateNetwork" (dict "network" . "path" $path) -}}
{{- include "deputize.validateExcept" (dict "network" $network "inner" . "path" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
