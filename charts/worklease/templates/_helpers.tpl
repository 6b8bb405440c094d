{{/* The name of everything that is the operator's own. It is one for the cluster, so a second installation is refused. */}}
{{- define "worklease.name" -}}
worklease-operator
{{- end }}

{{- define "worklease.selector" -}}
app.kubernetes.io/name: worklease
app.kubernetes.io/component: operator
{{- end }}

{{- define "worklease.labels" -}}
app.kubernetes.io/name: worklease
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "worklease.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/*
The manifests of a generated file, labelled. Takes root, file, kind (only these; default all), annotations, without
(the prefix of labels that are dropped) and replace (texts by other texts).
*/}}
{{- define "worklease.generated" -}}
{{- $root := .root }}
{{- range $document := splitList "\n---\n" (.root.Files.Get .file) }}
{{- range $from, $to := $.replace }}
{{- $document = replace $from $to $document }}
{{- end }}
{{- $manifest := fromYaml $document }}
{{- if or (not $.kind) (eq $.kind $manifest.kind) }}
{{- $labels := dict }}
{{- range $key, $value := ($manifest.metadata.labels | default dict) }}
{{- if not (and $.without (hasPrefix $.without $key)) }}
{{- $_ := set $labels $key $value }}
{{- end }}
{{- end }}
{{- $_ := set $manifest.metadata "labels" (merge $labels (include "worklease.labels" $root | fromYaml)) }}
{{- if $.annotations }}
{{- $_ := set $manifest.metadata "annotations" (merge (dict) $.annotations ($manifest.metadata.annotations | default dict)) }}
{{- end }}
---
{{ toYaml $manifest }}
{{- end }}
{{- end }}
{{- end }}

{{/* The restricted Pod Security Standard, for every container of ours. */}}
{{- define "worklease.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "worklease.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
