{{- define "rag-monitor.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains "rag-monitor" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-rag-monitor" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rag-monitor.selector" -}}
app.kubernetes.io/name: rag-monitor
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rag-monitor.labels" -}}
{{ include "rag-monitor.selector" . }}
app.kubernetes.io/part-of: rag-monitor
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "rag-monitor.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "rag-monitor.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The data of the ConfigMap. */}}
{{- define "rag-monitor.configData" -}}
config.yaml: |
{{- if .Values.config }}
  {{- toYaml .Values.config | nindent 2 }}
{{- else }}
  {{- .Files.Get (printf "files/config-%s.yaml" .Values.mode) | nindent 2 }}
{{- end }}
{{- with .Values.files }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "rag-monitor.checksum" -}}
checksum/config: {{ include "rag-monitor.configData" . | sha256sum }}
{{- end -}}

{{/* The parts of the monitor's container that all modes share: name, image, security context, mounts. */}}
{{- define "rag-monitor.container" -}}
{{- $sidecar := eq .Values.mode "sidecar" -}}
{{- $volume := ternary "rag-monitor-" "" $sidecar -}}
name: rag-monitor
image: {{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}
{{- else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
args: [run, --config, /etc/rag-monitor/config.yaml]
envFrom:
  - secretRef:
      name: {{ .Values.existingSecret | default (include "rag-monitor.fullname" .) }}
      {{- if not .Values.existingSecret }}
      optional: true
      {{- end }}
{{- if or .Values.env (eq .Values.mode "fleet") }}
env:
  {{- if eq .Values.mode "fleet" }}
  - name: KAFKA_BROKERS
    value: {{ .Values.kafka.brokers | quote }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
ports:
  {{- if eq .Values.mode "standalone" }}
  - {name: otlp-grpc, containerPort: 4317}
  - {name: otlp-http, containerPort: 4318}
  {{- end }}
  - {name: metrics, containerPort: 9464}
securityContext:
  {{- if $sidecar }}
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
  {{- end }}
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
startupProbe:
  httpGet: {path: {{ ternary "/-/ready" "/-/healthy" $sidecar }}, port: metrics}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /-/healthy, port: metrics}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 6
{{- if not $sidecar }}
readinessProbe:
  httpGet: {path: /-/ready, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end }}
{{- if eq .Values.mode "standalone" }}
lifecycle:
  preStop:
    sleep:
      seconds: 5
{{- end }}
resources:
  {{- if .Values.resources }}
  {{- toYaml .Values.resources | nindent 2 }}
  {{- else if $sidecar }}
  requests: {cpu: 100m, memory: 256Mi}
  limits: {memory: 512Mi}
  {{- else }}
  requests: {cpu: 200m, memory: 384Mi}
  limits: {memory: 1Gi}
  {{- end }}
volumeMounts:
  - {name: {{ $volume }}config, mountPath: /etc/rag-monitor, readOnly: true}
  - {name: {{ $volume }}state, mountPath: /var/lib/rag-monitor}
  - {name: {{ $volume }}tmp, mountPath: /tmp}
{{- end -}}

{{/* For a service's pod, also in another chart: `include "rag-monitor.sidecar" (index .Subcharts "rag-monitor")`
     under `initContainers`, and the volumes under `volumes`. */}}
{{- define "rag-monitor.sidecar" -}}
- restartPolicy: Always
  {{- include "rag-monitor.container" . | nindent 2 }}
{{- end -}}

{{- define "rag-monitor.sidecarVolumes" -}}
- name: rag-monitor-config
  configMap:
    name: {{ include "rag-monitor.fullname" . }}
- name: rag-monitor-state
  emptyDir: {}
- name: rag-monitor-tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}

{{/* The pod in modes standalone and fleet. */}}
{{- define "rag-monitor.pod" -}}
metadata:
  labels:
    {{- include "rag-monitor.selector" . | nindent 4 }}
    rag-monitor/scrape: "true"
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- include "rag-monitor.checksum" . | nindent 4 }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "rag-monitor.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
  {{- with index $.Values $key }}
  {{ $key }}: {{ toJson . }}
  {{- end }}
  {{- end }}
  containers:
    - {{- include "rag-monitor.container" . | nindent 6 }}
  topologySpreadConstraints:
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "rag-monitor.selector" $ | nindent 10 }}
    {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "rag-monitor.fullname" . }}
    - name: tmp
      emptyDir:
        sizeLimit: 64Mi
    {{- if eq .Values.mode "fleet" }}
    - name: state
      emptyDir:
        sizeLimit: 2Gi
    {{- end }}
{{- end -}}
