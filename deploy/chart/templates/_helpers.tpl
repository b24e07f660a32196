{{- define "muster.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
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

{{- define "muster.caInjection" -}}
{{- if eq .Values.webhook.certificates "cert-manager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/muster
{{- end }}
{{- end }}
