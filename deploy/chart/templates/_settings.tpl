{{- /* Refuses settings that fit one by one, and not together, as Muster does when it starts; a test compares the two. */}}
{{- define "muster.checkSettings" -}}
{{- $lease := (float64 ((.Values.settings).leaseSeconds | default 8)) }}
{{- $retry := (float64 ((.Values.settings).retrySeconds | default 2)) }}
{{- $backoff := (float64 ((.Values.settings).backoffSeconds | default 5)) }}
{{- $longest := (float64 ((.Values.settings).backoffMaxSeconds | default 300)) }}
{{- if ge (addf $lease $retry) 15.0 }}
{{- fail (printf "settings: found leaseSeconds %v, retrySeconds %v, expected a sum below 15" $lease $retry) }}
{{- end }}
{{- if gt (mulf $retry 2.0) $lease }}
{{- fail (printf "settings.retrySeconds: found %v, expected at most half of leaseSeconds (%v)" $retry $lease) }}
{{- end }}
{{- if lt $longest $backoff }}
{{- fail (printf "settings.backoffMaxSeconds: found %v, expected at least backoffSeconds (%v)" $longest $backoff) }}
{{- end }}
{{- end }}
