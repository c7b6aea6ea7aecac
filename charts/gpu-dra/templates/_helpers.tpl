{{- define "gpu-dra.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | regexFind ".*[^-.]" -}}
{{- end -}}

{{- /* 40 characters leave room for the longest suffix in a name of 63. */ -}}
{{- define "gpu-dra.fullname" -}}
{{- $name := include "gpu-dra.name" . -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $full | trunc 40 | regexFind ".*[^-.]" -}}
{{- end -}}

{{- /* Cluster-scoped names carry the namespace: two releases of one name in two namespaces must not meet. */ -}}
{{- define "gpu-dra.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "gpu-dra.fullname" .) -}}
{{- end -}}

{{- define "gpu-dra.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "gpu-dra.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* Call with (list . COMPONENT). */ -}}
{{- define "gpu-dra.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "gpu-dra.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* The only place that names the agent's service account: pod, bindings and admission policy all take it from here. */ -}}
{{- define "gpu-dra.nodeAgent.serviceAccount" -}}
{{- .Values.nodeAgent.serviceAccount.name | default (printf "%s-node-agent" (include "gpu-dra.fullname" .)) -}}
{{- end -}}

{{- define "gpu-dra.controller.serviceAccount" -}}
{{- .Values.controller.serviceAccount.name | default (printf "%s-controller" (include "gpu-dra.fullname" .)) -}}
{{- end -}}

{{- define "gpu-dra.controller.clusterRole" -}}
{{- printf "%s-controller" (include "gpu-dra.clusterName" .) -}}
{{- end -}}

{{- /* Call with (list . IMAGE-VALUES). */ -}}
{{- define "gpu-dra.image" -}}
{{- $image := index . 1 -}}
{{- printf "%s:%s" $image.repository ($image.tag | default (index . 0).Chart.AppVersion) -}}
{{- end -}}

{{- /* Call with (list . PROFILE): a name of customProfiles becomes the path of its file. */ -}}
{{- define "gpu-dra.profile" -}}
{{- $profile := index . 1 -}}
{{- if hasKey (index . 0).Values.nodeAgent.simulate.customProfiles $profile -}}
/etc/gpu-dra/profiles/{{ $profile }}.yaml
{{- else -}}
{{ $profile }}
{{- end -}}
{{- end -}}

{{- /* Kubelets before 1.33 drop the newer of two instances of a driver, so surge only from there on. */ -}}
{{- define "gpu-dra.maxSurge" -}}
{{- $value := .Values.nodeAgent.updateStrategy.maxSurge -}}
{{- if kindIs "invalid" $value -}}
{{- semverCompare ">=1.33.0-0" .Capabilities.KubeVersion.Version | ternary 1 0 -}}
{{- else -}}
{{- /* Helm reads numbers of a values file as floats. */ -}}
{{- kindIs "string" $value | ternary $value ($value | toString) -}}
{{- end -}}
{{- end -}}

{{- /* The deviceClasses of the values with every driver filled in: what the controller reads. */ -}}
{{- define "gpu-dra.deviceClasses" -}}
{{- $classes := list -}}
{{- range .Values.deviceClasses -}}
{{- $driver := .driver | default (eq .type "nic" | ternary "nic.gpu-dra.io" $.Values.gpuDriverName) -}}
{{- $classes = append $classes (merge (dict "driver" $driver) .) -}}
{{- end -}}
{{- toYaml $classes -}}
{{- end -}}
