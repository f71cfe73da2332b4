{{- /* The image of the second kube-scheduler: of the cluster's own release unless another is named. */ -}}
{{- define "numawise.kubeScheduler" -}}
{{- $release := regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version -}}
{{- .Values.kubeScheduler.image | default (printf "registry.k8s.io/kube-scheduler:%s" $release) -}}
{{- end -}}
{{- /* Certificates are made at the first installation, and kept at an upgrade. */ -}}
{{- define "numawise.certificates" -}}
{{- if not .Values.certificates -}}
{{- $server := lookup "v1" "Secret" .Release.Namespace "numawise-scheduler-server" -}}
{{- $client := lookup "v1" "Secret" .Release.Namespace "numawise-scheduler-client" -}}
{{- if and $server $client -}}
{{- $_ := set .Values "certificates" (dict
  "authority" (index $server.data "ca.crt")
  "serverCertificate" (index $server.data "tls.crt")
  "serverKey" (index $server.data "tls.key")
  "clientCertificate" (index $client.data "tls.crt")
  "clientKey" (index $client.data "tls.key")) -}}
{{- else -}}
{{- $authority := genCA "numawise" 3650 -}}
{{- $one := genSignedCert "numawise-scheduler" nil (list (printf "numawise-scheduler.%s.svc" .Release.Namespace) (printf "numawise-scheduler.%s" .Release.Namespace) (printf "numawise-scheduler.%s.svc.cluster.local" .Release.Namespace)) 3650 $authority -}}
{{- $two := genSignedCert "kube-scheduler" nil nil 3650 $authority -}}
{{- $_ := set .Values "certificates" (dict
  "authority" (b64enc $authority.Cert)
  "serverCertificate" (b64enc $one.Cert)
  "serverKey" (b64enc $one.Key)
  "clientCertificate" (b64enc $two.Cert)
  "clientKey" (b64enc $two.Key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Pods start again when certificates change. */ -}}
{{- define "numawise.stamp" -}}
{{- if eq .Values.tls "made" -}}
{{- include "numawise.certificates" . -}}
{{- printf "%s%s" .Values.certificates.authority .Values.certificates.clientCertificate | sha256sum | trunc 16 -}}
{{- else -}}
{{- .Values.tls -}}
{{- end -}}
{{- end -}}
