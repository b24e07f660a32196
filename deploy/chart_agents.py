"""The chart's template of the node agents: their manifest, with values in place of what clusters differ in. Pure."""

from typing import Final

#: The image in the objects. The template has the image of the values instead.
IMAGE: Final = "muster"
#: In the manifest, and what stands there in the template. Lists are JSON, on the line of their key.
_VALUES: Final = (
    # The ResourceQuota counts pods of this class only.
    ("      - system-node-critical\n", "      - {{ .Values.agent.priorityClassName }}\n"),
    (
        "      labels:\n        app.kubernetes.io/name: muster-agent\n        app.kubernetes.io/part-of: muster\n"
        "    spec:\n",
        """\
      labels:
        {{- include "muster.podLabels" (list "agent.podLabels" "muster-agent" .Values.agent.podLabels) | nindent 8 }}
      {{- with .Values.agent.podAnnotations }}
      annotations: {{ toJson . }}
      {{- end }}
    spec:
""",
    ),
    (
        "      priorityClassName: system-node-critical\n",
        """\
      {{- with .Values.agent.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .Values.agent.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with .Values.image.pullSecrets }}
      imagePullSecrets: {{ toJson . }}
      {{- end }}
      {{- with .Values.agent.nodeSelector }}
      nodeSelector: {{ toJson . }}
      {{- end }}
""",
    ),
    (
        "      affinity:\n",
        """\
      {{- with .Values.agent.affinity }}
      affinity: {{ toJson . }}
      {{- else }}
      affinity:
""",
    ),
    (
        "      tolerations:\n      - operator: Exists\n",
        """\
      {{- end }}
      tolerations: {{ toJson .Values.agent.tolerations }}
""",
    ),
    (
        f"        image: {IMAGE}\n",
        """\
        image: {{ include "muster.agentImage" . }}
        {{- with .Values.image.pullPolicy }}
        imagePullPolicy: {{ . }}
        {{- end }}
""",
    ),
    (
        "        - name: NVIDIA_VISIBLE_DEVICES\n          value: all\n",
        """\
        {{- if not (include "muster.hasVariable" (list "NVIDIA_VISIBLE_DEVICES" .Values.agent.extraEnv)) }}
        - name: NVIDIA_VISIBLE_DEVICES
          value: all
        {{- end }}
""",
    ),
    (
        "        - name: NVIDIA_DRIVER_CAPABILITIES\n          value: utility\n",
        """\
        {{- if not (include "muster.hasVariable" (list "NVIDIA_DRIVER_CAPABILITIES" .Values.agent.extraEnv)) }}
        - name: NVIDIA_DRIVER_CAPABILITIES
          value: utility
        {{- end }}
        {{- with .Values.agent.extraEnv }}
        {{- include "muster.extraEnv" (list "agent.extraEnv" . "^MUSTER_AGENT_NODE_NAME$") | nindent 8 }}
        {{- end }}
""",
    ),
    (
        "resources:\n          requests:\n            cpu: 10m\n            memory: 64Mi\n"
        "          limits:\n            memory: 128Mi\n",
        "resources: {{ toJson .Values.agent.resources }}\n",
    ),
    (
        "securityContext:\n          runAsUser: 0\n          allowPrivilegeEscalation: false\n"
        "          readOnlyRootFilesystem: true\n          capabilities:\n            drop:\n            - ALL\n",
        "securityContext: {{ toJson .Values.agent.securityContext }}\n",
    ),
    (
        "          mountPath: /var/lib/kubelet/device-plugins\n          readOnly: true\n",
        """\
          mountPath: /var/lib/kubelet/device-plugins
          readOnly: true
        {{- with .Values.agent.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
""",
    ),
    (
        "          path: /var/lib/kubelet/device-plugins\n          type: Directory\n",
        """\
          path: /var/lib/kubelet/device-plugins
          type: Directory
      {{- with .Values.agent.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
""",
    ),
    (
        "metadata.name: monitoring\n",
        "metadata.name: {{ .Values.networkPolicy.monitoringNamespace }}\n",
    ),
    (
        "except:\n        - 10.244.0.0/16\n",
        "except: {{ toJson .Values.networkPolicy.podCIDRs.ipv4 }}\n",
    ),
    (
        "except:\n        - fd00::/8\n",
        "except: {{ toJson .Values.networkPolicy.podCIDRs.ipv6 }}\n",
    ),
)


class NotInManifest(ValueError):
    """A part of a manifest that values of the chart replace is not there exactly once."""


def agent_template(text: str) -> str:
    """The manifest of the agents as a template. Raises NotInManifest."""
    for there, instead in _VALUES:
        if text.count(there) != 1:
            raise NotInManifest(there)
        text = text.replace(there, instead)
    header, _, text = text.partition("\n")
    quota, daemon_set, network_policy = text.split("\n---\n")
    parts = (
        header,
        only_if('hasPrefix "system-" (.Values.agent.priorityClassName | default "")', quota + "\n"),
        "---\n" + daemon_set,
        only_if(".Values.networkPolicy.enabled", "---\n" + network_policy),
    )
    return "\n".join(part.removesuffix("\n") for part in parts) + "\n"


def only_if(condition: str, text: str) -> str:
    """A part of a template that is rendered under a condition."""
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
