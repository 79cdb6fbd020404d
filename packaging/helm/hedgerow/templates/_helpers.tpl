{{- define "hedgerow.fullname" -}}
{{- if contains "hedgerow" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-hedgerow" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hedgerow.selector" -}}
app.kubernetes.io/name: hedgerow
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "hedgerow.labels" -}}
{{ include "hedgerow.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "hedgerow.secret" -}}
{{- .Values.existingSecret | default (include "hedgerow.fullname" .) -}}
{{- end -}}

{{/* The pods of the server and of the worker differ in a command and a few values. */}}
{{- define "hedgerow.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "hedgerow.labels" . | nindent 4 }}
  annotations:
    {{- if not $root.Values.existingSecret }}
    checksum/secret: {{ include (print $root.Template.BasePath "/secret.yaml") $root | sha256sum }}
    {{- end }}
    {{- if $root.Values.metricsAnnotations }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8001"
    prometheus.io/path: /metrics
    {{- end }}
    {{- with $root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  # Kubernetes would add variables that look like settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add 60 $root.Values.shutdownDelay }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: {{ .component }}
      image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [{{ .command }}]
      envFrom:
        - secretRef:
            name: {{ include "hedgerow.secret" $root }}
      env:
        - name: HEDGEROW_LISTEN
          value: "0.0.0.0:8000"
        - name: HEDGEROW_HEALTH_LISTEN
          value: "0.0.0.0:8001"
        - name: HEDGEROW_DATA_DIR
          value: /var/lib/hedgerow
        - name: HEDGEROW_SHUTDOWN_DELAY
          value: {{ $root.Values.shutdownDelay | quote }}
        - name: HEDGEROW_WORKERS
          value: {{ .workers | quote }}
        {{- range $name, $value := $root.Values.settings }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      ports:
        {{- if eq .command "serve" }}
        - name: http
          containerPort: 8000
        {{- end }}
        - name: health
          containerPort: 8001
      startupProbe:
        httpGet: { path: /healthz, port: health }
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: { path: /healthz, port: health }
        periodSeconds: 10
        timeoutSeconds: 5
      readinessProbe:
        httpGet: { path: /readyz, port: health }
        periodSeconds: 2
        timeoutSeconds: 3
        failureThreshold: 2
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - name: data
          mountPath: /var/lib/hedgerow
        - name: tmp
          mountPath: /tmp
  volumes:
    - name: data
      emptyDir: {}
    - name: tmp
      emptyDir: {}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
