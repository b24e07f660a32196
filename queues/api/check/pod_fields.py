"""Fields of a PodTemplateSpec and its parts, with their types, as Kubernetes 1.36 serves them in its OpenAPI document.

A test compares the table with a real API server. Notation: ``Type: field=type …``; ``!`` after a field that is
required; ``[T]`` a list, ``{T}`` a mapping of text to T, ``A|B`` one of these texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

#: The version whose fields these are.
KUBERNETES: Final = "1.36"

_TABLE: Final = """
PodTemplateSpec: metadata=ObjectMeta spec=PodSpec
ObjectMeta: annotations={string} creationTimestamp=time deletionGracePeriodSeconds=integer:int64
  deletionTimestamp=time finalizers=[string] generateName=string generation=integer:int64 labels={string}
  managedFields=[ManagedFieldsEntry] name=string namespace=string ownerReferences=[OwnerReference]
  resourceVersion=string selfLink=string uid=string
ManagedFieldsEntry: apiVersion=string fieldsType=string fieldsV1=FieldsV1 manager=string operation=string
  subresource=string time=time
FieldsV1:
OwnerReference: apiVersion!=string blockOwnerDeletion=boolean controller=boolean kind!=string name!=string
  uid!=string
PodSpec: activeDeadlineSeconds=integer:int64 affinity=Affinity automountServiceAccountToken=boolean
  containers!=[Container] dnsConfig=PodDNSConfig dnsPolicy=ClusterFirst|ClusterFirstWithHostNet|Default|None
  enableServiceLinks=boolean ephemeralContainers=[EphemeralContainer] hostAliases=[HostAlias] hostIPC=boolean
  hostNetwork=boolean hostPID=boolean hostUsers=boolean hostname=string hostnameOverride=string
  imagePullSecrets=[LocalObjectReference] initContainers=[Container] nodeName=string nodeSelector={string}
  os=PodOS overhead={quantity} preemptionPolicy=Never|PreemptLowerPriority priority=integer:int32
  priorityClassName=string readinessGates=[PodReadinessGate] resourceClaims=[PodResourceClaim]
  resources=ResourceRequirements restartPolicy=Always|Never|OnFailure runtimeClassName=string
  schedulerName=string schedulingGates=[PodSchedulingGate] schedulingGroup=PodSchedulingGroup
  securityContext=PodSecurityContext serviceAccount=string serviceAccountName=string setHostnameAsFQDN=boolean
  shareProcessNamespace=boolean subdomain=string terminationGracePeriodSeconds=integer:int64
  tolerations=[Toleration] topologySpreadConstraints=[TopologySpreadConstraint] volumes=[Volume]
Affinity: nodeAffinity=NodeAffinity podAffinity=PodAffinity podAntiAffinity=PodAntiAffinity
NodeAffinity: preferredDuringSchedulingIgnoredDuringExecution=[PreferredSchedulingTerm]
  requiredDuringSchedulingIgnoredDuringExecution=NodeSelector
PreferredSchedulingTerm: preference!=NodeSelectorTerm weight!=integer:int32
NodeSelectorTerm: matchExpressions=[NodeSelectorRequirement] matchFields=[NodeSelectorRequirement]
NodeSelectorRequirement: key!=string operator!=DoesNotExist|Exists|Gt|In|Lt|NotIn values=[string]
NodeSelector: nodeSelectorTerms!=[NodeSelectorTerm]
PodAffinity: preferredDuringSchedulingIgnoredDuringExecution=[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution=[PodAffinityTerm]
WeightedPodAffinityTerm: podAffinityTerm!=PodAffinityTerm weight!=integer:int32
PodAffinityTerm: labelSelector=LabelSelector matchLabelKeys=[string] mismatchLabelKeys=[string]
  namespaceSelector=LabelSelector namespaces=[string] topologyKey!=string
LabelSelector: matchExpressions=[LabelSelectorRequirement] matchLabels={string}
LabelSelectorRequirement: key!=string operator!=string values=[string]
PodAntiAffinity: preferredDuringSchedulingIgnoredDuringExecution=[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution=[PodAffinityTerm]
Container: args=[string] command=[string] env=[EnvVar] envFrom=[EnvFromSource] image=string
  imagePullPolicy=Always|IfNotPresent|Never lifecycle=Lifecycle livenessProbe=Probe name!=string
  ports=[ContainerPort] readinessProbe=Probe resizePolicy=[ContainerResizePolicy]
  resources=ResourceRequirements restartPolicy=string restartPolicyRules=[ContainerRestartRule]
  securityContext=SecurityContext startupProbe=Probe stdin=boolean stdinOnce=boolean
  terminationMessagePath=string terminationMessagePolicy=FallbackToLogsOnError|File tty=boolean
  volumeDevices=[VolumeDevice] volumeMounts=[VolumeMount] workingDir=string
EnvVar: name!=string value=string valueFrom=EnvVarSource
EnvVarSource: configMapKeyRef=ConfigMapKeySelector fieldRef=ObjectFieldSelector fileKeyRef=FileKeySelector
  resourceFieldRef=ResourceFieldSelector secretKeyRef=SecretKeySelector
ConfigMapKeySelector: key!=string name=string optional=boolean
ObjectFieldSelector: apiVersion=string fieldPath!=string
FileKeySelector: key!=string optional=boolean path!=string volumeName!=string
ResourceFieldSelector: containerName=string divisor=quantity resource!=string
SecretKeySelector: key!=string name=string optional=boolean
EnvFromSource: configMapRef=ConfigMapEnvSource prefix=string secretRef=SecretEnvSource
ConfigMapEnvSource: name=string optional=boolean
SecretEnvSource: name=string optional=boolean
Lifecycle: postStart=LifecycleHandler preStop=LifecycleHandler
  stopSignal=string
LifecycleHandler: exec=ExecAction httpGet=HTTPGetAction sleep=SleepAction tcpSocket=TCPSocketAction
ExecAction: command=[string]
HTTPGetAction: host=string httpHeaders=[HTTPHeader] path=string port!=int-or-string scheme=HTTP|HTTPS
HTTPHeader: name!=string value!=string
SleepAction: seconds!=integer:int64
TCPSocketAction: host=string port!=int-or-string
Probe: exec=ExecAction failureThreshold=integer:int32 grpc=GRPCAction httpGet=HTTPGetAction
  initialDelaySeconds=integer:int32 periodSeconds=integer:int32 successThreshold=integer:int32
  tcpSocket=TCPSocketAction terminationGracePeriodSeconds=integer:int64 timeoutSeconds=integer:int32
GRPCAction: port!=integer:int32 service=string
ContainerPort: containerPort!=integer:int32 hostIP=string hostPort=integer:int32 name=string
  protocol=SCTP|TCP|UDP
ContainerResizePolicy: resourceName!=string restartPolicy!=string
ResourceRequirements: claims=[ResourceClaim] limits={quantity} requests={quantity}
ResourceClaim: name!=string request=string
ContainerRestartRule: action!=string exitCodes=ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator!=string values=[integer:int32]
SecurityContext: allowPrivilegeEscalation=boolean appArmorProfile=AppArmorProfile capabilities=Capabilities
  privileged=boolean procMount=Default|Unmasked readOnlyRootFilesystem=boolean runAsGroup=integer:int64
  runAsNonRoot=boolean runAsUser=integer:int64 seLinuxOptions=SELinuxOptions seccompProfile=SeccompProfile
  windowsOptions=WindowsSecurityContextOptions
AppArmorProfile: localhostProfile=string type!=Localhost|RuntimeDefault|Unconfined
Capabilities: add=[string] drop=[string]
SELinuxOptions: level=string role=string type=string user=string
SeccompProfile: localhostProfile=string type!=Localhost|RuntimeDefault|Unconfined
WindowsSecurityContextOptions: gmsaCredentialSpec=string gmsaCredentialSpecName=string hostProcess=boolean
  runAsUserName=string
VolumeDevice: devicePath!=string name!=string
VolumeMount: mountPath!=string mountPropagation=Bidirectional|HostToContainer|None name!=string
  readOnly=boolean recursiveReadOnly=string subPath=string subPathExpr=string
PodDNSConfig: nameservers=[string] options=[PodDNSConfigOption] searches=[string]
PodDNSConfigOption: name=string value=string
EphemeralContainer: args=[string] command=[string] env=[EnvVar] envFrom=[EnvFromSource] image=string
  imagePullPolicy=Always|IfNotPresent|Never lifecycle=Lifecycle livenessProbe=Probe name!=string
  ports=[ContainerPort] readinessProbe=Probe resizePolicy=[ContainerResizePolicy]
  resources=ResourceRequirements restartPolicy=string restartPolicyRules=[ContainerRestartRule]
  securityContext=SecurityContext startupProbe=Probe stdin=boolean stdinOnce=boolean
  targetContainerName=string terminationMessagePath=string terminationMessagePolicy=FallbackToLogsOnError|File
  tty=boolean volumeDevices=[VolumeDevice] volumeMounts=[VolumeMount] workingDir=string
HostAlias: hostnames=[string] ip!=string
LocalObjectReference: name=string
PodOS: name!=string
PodReadinessGate: conditionType!=string
PodResourceClaim: name!=string resourceClaimName=string resourceClaimTemplateName=string
PodSchedulingGate: name!=string
PodSchedulingGroup: podGroupName=string
PodSecurityContext: appArmorProfile=AppArmorProfile fsGroup=integer:int64
  fsGroupChangePolicy=Always|OnRootMismatch runAsGroup=integer:int64 runAsNonRoot=boolean
  runAsUser=integer:int64 seLinuxChangePolicy=string seLinuxOptions=SELinuxOptions
  seccompProfile=SeccompProfile supplementalGroups=[integer:int64] supplementalGroupsPolicy=Merge|Strict
  sysctls=[Sysctl] windowsOptions=WindowsSecurityContextOptions
Sysctl: name!=string value!=string
Toleration: effect=NoExecute|NoSchedule|PreferNoSchedule key=string operator=Equal|Exists|Gt|Lt
  tolerationSeconds=integer:int64 value=string
TopologySpreadConstraint: labelSelector=LabelSelector matchLabelKeys=[string] maxSkew!=integer:int32
  minDomains=integer:int32 nodeAffinityPolicy=Honor|Ignore nodeTaintsPolicy=Honor|Ignore topologyKey!=string
  whenUnsatisfiable!=DoNotSchedule|ScheduleAnyway
Volume: awsElasticBlockStore=AWSElasticBlockStoreVolumeSource azureDisk=AzureDiskVolumeSource
  azureFile=AzureFileVolumeSource cephfs=CephFSVolumeSource cinder=CinderVolumeSource
  configMap=ConfigMapVolumeSource csi=CSIVolumeSource downwardAPI=DownwardAPIVolumeSource
  emptyDir=EmptyDirVolumeSource ephemeral=EphemeralVolumeSource fc=FCVolumeSource flexVolume=FlexVolumeSource
  flocker=FlockerVolumeSource gcePersistentDisk=GCEPersistentDiskVolumeSource gitRepo=GitRepoVolumeSource
  glusterfs=GlusterfsVolumeSource hostPath=HostPathVolumeSource image=ImageVolumeSource
  iscsi=ISCSIVolumeSource name!=string nfs=NFSVolumeSource
  persistentVolumeClaim=PersistentVolumeClaimVolumeSource
  photonPersistentDisk=PhotonPersistentDiskVolumeSource portworxVolume=PortworxVolumeSource
  projected=ProjectedVolumeSource quobyte=QuobyteVolumeSource rbd=RBDVolumeSource scaleIO=ScaleIOVolumeSource
  secret=SecretVolumeSource storageos=StorageOSVolumeSource vsphereVolume=VsphereVirtualDiskVolumeSource
AWSElasticBlockStoreVolumeSource: fsType=string partition=integer:int32 readOnly=boolean volumeID!=string
AzureDiskVolumeSource: cachingMode=None|ReadOnly|ReadWrite diskName!=string diskURI!=string fsType=string
  kind=Dedicated|Managed|Shared readOnly=boolean
AzureFileVolumeSource: readOnly=boolean secretName!=string shareName!=string
CephFSVolumeSource: monitors!=[string] path=string readOnly=boolean secretFile=string
  secretRef=LocalObjectReference user=string
CinderVolumeSource: fsType=string readOnly=boolean secretRef=LocalObjectReference volumeID!=string
ConfigMapVolumeSource: defaultMode=integer:int32 items=[KeyToPath] name=string optional=boolean
KeyToPath: key!=string mode=integer:int32 path!=string
CSIVolumeSource: driver!=string fsType=string nodePublishSecretRef=LocalObjectReference readOnly=boolean
  volumeAttributes={string}
DownwardAPIVolumeSource: defaultMode=integer:int32 items=[DownwardAPIVolumeFile]
DownwardAPIVolumeFile: fieldRef=ObjectFieldSelector mode=integer:int32 path!=string
  resourceFieldRef=ResourceFieldSelector
EmptyDirVolumeSource: medium=string sizeLimit=quantity
EphemeralVolumeSource: volumeClaimTemplate=PersistentVolumeClaimTemplate
PersistentVolumeClaimTemplate: metadata=ObjectMeta spec!=PersistentVolumeClaimSpec
PersistentVolumeClaimSpec: accessModes=[ReadOnlyMany|ReadWriteMany|ReadWriteOnce|ReadWriteOncePod]
  dataSource=TypedLocalObjectReference dataSourceRef=TypedObjectReference resources=VolumeResourceRequirements
  selector=LabelSelector storageClassName=string volumeAttributesClassName=string volumeMode=Block|Filesystem
  volumeName=string
TypedLocalObjectReference: apiGroup=string kind!=string name!=string
TypedObjectReference: apiGroup=string kind!=string name!=string namespace=string
VolumeResourceRequirements: limits={quantity} requests={quantity}
FCVolumeSource: fsType=string lun=integer:int32 readOnly=boolean targetWWNs=[string] wwids=[string]
FlexVolumeSource: driver!=string fsType=string options={string} readOnly=boolean
  secretRef=LocalObjectReference
FlockerVolumeSource: datasetName=string datasetUUID=string
GCEPersistentDiskVolumeSource: fsType=string partition=integer:int32 pdName!=string readOnly=boolean
GitRepoVolumeSource: directory=string repository!=string revision=string
GlusterfsVolumeSource: endpoints!=string path!=string readOnly=boolean
HostPathVolumeSource: path!=string
  type=|BlockDevice|CharDevice|Directory|DirectoryOrCreate|File|FileOrCreate|Socket
ImageVolumeSource: pullPolicy=Always|IfNotPresent|Never reference=string
ISCSIVolumeSource: chapAuthDiscovery=boolean chapAuthSession=boolean fsType=string initiatorName=string
  iqn!=string iscsiInterface=string lun!=integer:int32 portals=[string] readOnly=boolean
  secretRef=LocalObjectReference targetPortal!=string
NFSVolumeSource: path!=string readOnly=boolean server!=string
PersistentVolumeClaimVolumeSource: claimName!=string readOnly=boolean
PhotonPersistentDiskVolumeSource: fsType=string pdID!=string
PortworxVolumeSource: fsType=string readOnly=boolean volumeID!=string
ProjectedVolumeSource: defaultMode=integer:int32 sources=[VolumeProjection]
VolumeProjection: clusterTrustBundle=ClusterTrustBundleProjection configMap=ConfigMapProjection
  downwardAPI=DownwardAPIProjection podCertificate=PodCertificateProjection secret=SecretProjection
  serviceAccountToken=ServiceAccountTokenProjection
ClusterTrustBundleProjection: labelSelector=LabelSelector name=string optional=boolean path!=string
  signerName=string
ConfigMapProjection: items=[KeyToPath] name=string optional=boolean
DownwardAPIProjection: items=[DownwardAPIVolumeFile]
PodCertificateProjection: certificateChainPath=string credentialBundlePath=string keyPath=string
  keyType!=string maxExpirationSeconds=integer:int32 signerName!=string userAnnotations={string}
SecretProjection: items=[KeyToPath] name=string optional=boolean
ServiceAccountTokenProjection: audience=string expirationSeconds=integer:int64 path!=string
QuobyteVolumeSource: group=string readOnly=boolean registry!=string tenant=string user=string volume!=string
RBDVolumeSource: fsType=string image!=string keyring=string monitors!=[string] pool=string readOnly=boolean
  secretRef=LocalObjectReference user=string
ScaleIOVolumeSource: fsType=string gateway!=string protectionDomain=string readOnly=boolean
  secretRef!=LocalObjectReference sslEnabled=boolean storageMode=string storagePool=string system!=string
  volumeName=string
SecretVolumeSource: defaultMode=integer:int32 items=[KeyToPath] optional=boolean secretName=string
StorageOSVolumeSource: fsType=string readOnly=boolean secretRef=LocalObjectReference volumeName=string
  volumeNamespace=string
VsphereVirtualDiskVolumeSource: fsType=string storagePolicyID=string storagePolicyName=string
  volumePath!=string
"""


@dataclass(frozen=True, slots=True)
class PodField:
    """A field of a part of a pod template."""

    #: In the notation of the table.
    type: str
    required: bool


@cache
def pod_types() -> Mapping[str, Mapping[str, PodField]]:
    """Fields by name, by type."""
    found: dict[str, dict[str, PodField]] = {}
    for word in _TABLE.split():
        if word.endswith(":"):
            fields = found[word[:-1]] = {}
            continue
        field, _, written = word.partition("=")
        fields[field.rstrip("!")] = PodField(written, field.endswith("!"))
    return found
