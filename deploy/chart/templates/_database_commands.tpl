{{/* What pods for commands of the database have in common: backup.yaml and tools.yaml. */}}

{{- define "muster.databaseCommands.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "muster.databaseCommands.container" -}}
image: {{ include "muster.image" . }}
{{ include "muster.databaseCommands.containerRights" . }}
{{- end }}

{{- /* With pg_dump, pg_restore and psql. */}}
{{- define "muster.postgresContainer" -}}
image: {{ .Values.backup.image | default (printf "postgres:%v" .Values.backup.major) }}
{{ include "muster.databaseCommands.containerRights" . }}
{{- end }}

{{- define "muster.databaseCommands.containerRights" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- define "muster.backupClaim" -}}
{{ .Values.backup.storage.existingClaim | default "muster-backups" }}
{{- end }}
