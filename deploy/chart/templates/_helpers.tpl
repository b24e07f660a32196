{{- define "muster.image" -}}
{{- if .Values.image.digest }}
{{- .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "muster.agentImage" -}}
{{- if (.Values.agent.image).repository }}
{{- include "muster.image" (dict "Values" (dict "image" .Values.agent.image) "Chart" .Chart) }}
{{- else }}
{{- include "muster.image" . }}
{{- end }}
{{- end }}

{{- define "muster.schedulerName" -}}
{{ (.Values.settings).schedulerName | default "default-scheduler" }}
{{- end }}

{{- /* As the elements of a list in an expression: (list QUOTE CONTEXT). */}}
{{- define "muster.schedulerAliases" -}}
{{- $quote := index . 0 }}
{{- $names := list }}
{{- range ((index . 1).Values.settings).schedulerAliases | default (list "volcano") }}
{{- $names = append $names (print $quote . $quote) }}
{{- end }}
{{- join ", " $names }}
{{- end }}

{{- /* Labels of pods, with further ones: (list PATH NAME LABELS). Services and policies find the pods by the name. */}}
{{- define "muster.podLabels" -}}
{{- $name := index . 1 }}
{{- $further := index . 2 | default dict }}
{{- $found := get $further "app.kubernetes.io/name" }}
{{- if and $found (ne $found $name) }}
{{- fail (printf "%s: found app.kubernetes.io/name: %s, expected other labels, since the pods are found by %s. Leave it out" (index . 0) $found $name) }}
{{- end }}
{{- toYaml (mergeOverwrite (dict "app.kubernetes.io/name" $name "app.kubernetes.io/part-of" "muster") $further) }}
{{- end }}

{{- /* Labels of an object that another program looks for: (list LABELS). */}}
{{- define "muster.labels" -}}
{{- toYaml (mergeOverwrite (dict "app.kubernetes.io/part-of" "muster") (index . 0 | default dict)) }}
{{- end }}

{{- /* Further variables of a container: (list PATH VARIABLES PATTERN). The pattern has the names that the chart sets. */}}
{{- define "muster.extraEnv" -}}
{{- $names := list }}
{{- range index . 1 }}
{{- if or (regexMatch (index $ 2) .name) (has .name $names) }}
{{- fail (printf "%s: found %s, which the chart sets itself or which is there twice, expected each name once. Settings of `muster run` belong into settings" (index $ 0) .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- end }}
{{- toYaml (index . 1) }}
{{- end }}

{{- /* Not empty if a variable is among others: (list NAME VARIABLES). */}}
{{- define "muster.hasVariable" -}}
{{- range index . 1 }}{{ if eq .name (index $ 0) }}true{{ end }}{{ end }}
{{- end }}

{{- define "muster.databaseSecret" -}}
{{- $ways := 0 }}
{{- if .Values.database.dsn }}{{ $ways = add1 $ways }}{{ end }}
{{- if .Values.database.existingSecret }}{{ $ways = add1 $ways }}{{ end }}
{{- if .Values.database.cloudNativePG.enabled }}{{ $ways = add1 $ways }}{{ end }}
{{- if ne (int $ways) 1 }}
{{- fail (printf "database: found %d of dsn, existingSecret and cloudNativePG.enabled, expected exactly one. Set one of them" (int $ways)) }}
{{- end }}
{{- if .Values.database.cloudNativePG.enabled }}muster-postgres-app
{{- else }}{{ .Values.database.existingSecret | default "muster-database" }}
{{- end }}
{{- end }}

{{- define "muster.databaseKey" -}}
{{- if .Values.database.cloudNativePG.enabled }}uri
{{- else if .Values.database.existingSecret }}{{ .Values.database.existingSecretKey }}
{{- else }}dsn
{{- end }}
{{- end }}

{{- /* The spec of the Cluster of CloudNativePG: the chart's, with the fields of database.cloudNativePG.spec over it. Ways to
begin exclude one another, so a bootstrap there takes the place of the chart's; database and owner are those of the DSN. */}}
{{- define "muster.databaseSpec" -}}
{{- $given := deepCopy (.spec | default dict) }}
{{- $storage := dict "size" .storage.size }}
{{- with .storage.storageClass }}{{ $_ := set $storage "storageClass" . }}{{ end }}
{{- $bootstrap := $given.bootstrap | default (dict "initdb" dict) }}
{{- range $way := list "initdb" "recovery" "pg_basebackup" }}
{{- if hasKey $bootstrap $way }}
{{- $_ := set $bootstrap $way (merge (get $bootstrap $way | default dict) (dict "database" "muster" "owner" "muster")) }}
{{- end }}
{{- end }}
{{- $spec := dict "instances" .instances "storage" $storage "bootstrap" $bootstrap }}
{{- /* An older way to ask for it, which excludes the other. */}}
{{- $told := or (hasKey ($given.postgresql | default dict) "synchronous") (hasKey $given "minSyncReplicas") (hasKey $given "maxSyncReplicas") }}
{{- if and (ge (int ($given.instances | default .instances)) 2) (not $told) }}
{{- $_ := set $spec "postgresql" (dict "synchronous" (dict "method" "any" "number" 1 "dataDurability" "required")) }}
{{- end }}
{{- toYaml (mergeOverwrite $spec (omit $given "bootstrap")) }}
{{- end }}

{{- define "muster.caInjection" -}}
{{- if eq .Values.webhook.certificates "cert-manager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/muster
{{- end }}
{{- end }}
