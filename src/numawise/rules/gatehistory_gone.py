"""Feature gates that the newest release no longer has; the lines are as in ``gatehistory``."""

GONE = """
APIListChunking 20b+ 29s+! 33x
APIPriorityAndFairness 20b+ 29s+! 31x
APISelfSubjectReview 26a- 27b+ 28s+! 30x
APIServerTracing 22a- 27b+ 34s+! 37x
AdmissionWebhookMatchConditions 27a- 28b+ 30s+! 33x
AdvancedAuditing 20s+ 27s+! 28x
AggregatedDiscoveryEndpoint 26a- 27b+ 30s+! 33x
AllowInsecureBackendProxy 20b+ 21s+! 23x
AllowServiceLBStatusOnNonLB 29d- 32d-! 35x
AnonymousAuthConfigurableEndpoints 31a- 32b+ 34s+! 37x
AnyVolumeDataSource 20a- 24b+ 33s+! 37x
AppArmor 20b+ 31s+! 33x
AppArmorFields 30b+ 31s+! 33x
AttachVolumeLimit 20s+! 21x
AuthorizeNodeWithSelectors 31a- 32b+ 34s+! 37x
AuthorizeWithSelectors 31a- 32b+ 34s+! 37x
BalanceAttachedNodeVolumes 20a- 22x
BlockVolume 20s+! 21x
BoundServiceAccountTokenVolume 20a- 21b+ 22s+! 23x
BtreeWatchCache 32b+ 33s+! 37x
CPUManager 20b+ 26s+! 33x
CRIContainerLogRotation 20b+ 21s+! 22x
CSIBlockVolume 20s+! 21x
CSIDriverRegistry 20s+! 21x
CSIInlineVolume 20b+ 25s+! 27x
CSIMigration 20b+ 25s+! 27x
CSIMigrationAWS 20b- 23b+ 25s+! 27x
CSIMigrationAWSComplete 20a- 21x
CSIMigrationAzureDisk 20b- 23b+ 24s+ 25s+! 27x
CSIMigrationAzureDiskComplete 20a- 21x
CSIMigrationAzureFile 20a- 21b- 24b+ 26s+ 27s+! 30x
CSIMigrationAzureFileComplete 20a- 21x
CSIMigrationGCE 20b- 23b+ 25s+! 28x
CSIMigrationGCEComplete 20a- 21x
CSIMigrationOpenStack 20b- 21b+ 24s+! 26x
CSIMigrationOpenStackComplete 20a- 21x
CSIMigrationPortworx 23a- 25b- 31b+ 33s+! 36x
CSIMigrationRBD 24a- 28d- 31x
CSIMigrationvSphere 20b- 25b+ 26s+ 27s+! 29x
CSIMigrationvSphereComplete 20b- 22x
CSINodeExpandSecret 25a- 27b+ 29s+! 31x
CSINodeInfo 20s+! 21x
CSIServiceAccountToken 20a- 21b+ 22s+! 25x
CSIStorageCapacity 20a- 21b+ 24s+! 28x
CSIVolumeFSGroupPolicy 20b+ 23s+! 25x
CSRDuration 22b+ 24s+! 26x
CloudDualStackNodeIPs 27a- 29b+ 30s+! 32x
ComponentSLIs 26a- 27b+ 32s+! 35x
ConfigurableFSGroupPolicy 20b+ 23s+! 25x
ConsistentHTTPGetHandlers 26s+ 30s+! 31x
ConsistentListFromCache 28a- 31b+ 34s+! 37x
ControllerManagerLeaderMigration 22b+ 24s+! 27x
CronJobControllerV2 20a- 21b+ 22s+! 23x
CronJobTimeZone 24a- 25b+ 27s+! 29x
CronJobsScheduledAnnotation 28b+ 32s+! 35x
CustomResourceValidationExpressions 23a- 25b+ 29s+! 31x
DRAControlPlaneController 31a- 32x
DaemonSetUpdateSurge 21a- 22b+ 25s+! 27x
DefaultHostNetworkHostPortsInPodTemplates 28d- 31x
DefaultPodTopologySpread 20b+ 24s+! 26x
DelegateFSGroupToCSIDriver 22a- 23b+ 26s+! 28x
DevicePluginCDIDevices 28a- 29b+ 31s+! 34x
DevicePlugins 20b+ 26s+! 28x
DisableAcceleratorUsageMetrics 20b+ 25s+! 28x
DisableCloudProviders 22a- 29b+ 31s+! 33x
DisableKubeletCloudCredentialProviders 23a- 29b+ 31s+! 33x
DownwardAPIHugePages 20a- 21b- 23b+ 27s+! 29x
DryRun 20s+ 26s+! 28x
DynamicKubeletConfig 20b+ 22d- 26x
EfficientWatchResumption 20a- 21b+ 24s+! 33x
ElasticIndexedJob 27b+ 31s+! 34x
EndpointSlice 20b+ 21s+! 25x
EndpointSliceNodeName 20a- 21s+! 25x
EndpointSliceProxying 20b+ 22s+! 25x
EndpointSliceTerminatingCondition 20a- 22b+ 26s+! 28x
EphemeralContainers 20a- 23b+ 25s+! 27x
EvenPodsSpread 20s+! 21x
ExpandCSIVolumes 20b+ 24s+ 27x
ExpandInUsePersistentVolumes 20b+ 24s+ 27x
ExpandPersistentVolumes 20b+ 24s+ 27x
ExpandedDNSConfig 22a- 26b+ 28s+! 30x
ExperimentalHostUserNamespaceDefaulting 20b- 28d-! 30x
ExternalPolicyForExternalIP 20s+! 22x
GRPCContainerProbe 23a- 24b+ 27s+! 29x
GangScheduling 35a- 37x
GenericEphemeralVolume 20a- 21b+ 23s+! 25x
HPAContainerMetrics 20a- 27b+ 30s+! 32x
HonorPVReclaimPolicy 23a- 31b+ 33s+! 36x
HugePageStorageMediumSize 20b+ 22s+! 24x
HyperVContainer 20d- 21x
IPTablesOwnershipCleanup 25a- 27b+ 28s+! 30x
IPv6DualStack 20a- 21b+ 23s+! 25x
IdentifyPodOS 23a- 24b+ 25s+! 27x
ImmutableEphemeralVolumes 20b+ 21s+! 24x
InPlacePodVerticalScalingAllocatedStatus 32a- 33d- 36x
InTreePluginAWSUnregister 21a- 31x
InTreePluginAzureDiskUnregister 21a- 31x
InTreePluginAzureFileUnregister 21a- 31x
InTreePluginGCEUnregister 21a- 31x
InTreePluginOpenStackUnregister 21a- 31x
InTreePluginPortworxUnregister 23a- 36x
InTreePluginRBDUnregister 23a- 28d- 31x
InTreePluginvSphereUnregister 21a- 31x
IndexedJob 21a- 22b+ 24s+! 26x
IngressClassNamespacedParams 21a- 22b+ 23s+! 25x
JobBackoffLimitPerIndex 28a- 29b+ 33s+! 37x
JobMutableNodeSchedulingDirectives 23b+ 27s+! 29x
JobPodFailurePolicy 25a- 26b+ 31s+! 33x
JobPodReplacementPolicy 28a- 29b+ 34s+! 37x
JobReadyPods 23a- 24b+ 29s+! 31x
JobSuccessPolicy 30a- 31b+ 33s+! 37x
JobTrackingWithFinalizers 22a- 23b- 25b+ 26s+! 29x
KMSv2 25a- 27b+ 29s+! 32x
KMSv2KDF 28b- 29s+! 32x
KubeProxyDrainingTerminatingNodes 28a- 30b+ 31s+! 33x
KubeletCredentialProviders 20a- 24b+ 26s+! 28x
KubeletPodResources 20b+ 28s+! 30x
KubeletPodResourcesGetAllocatable 21a- 23b+ 28s+! 30x
LegacyNodeRoleBehavior 20b+ 21s-! 22x
LegacyServiceAccountTokenCleanUp 28a- 29b+ 30s+! 32x
LegacyServiceAccountTokenNoAutoGeneration 24b+ 26s+ 27s+! 29x
LegacyServiceAccountTokenTracking 26a- 27b+ 28s+! 30x
LegacySidecarContainers 33d- 34x
LoadBalancerIPMode 29a- 30b+ 32s+! 35x
LocalStorageCapacityIsolation 20b+ 25s+! 27x
LogarithmicScaleDown 21a- 22b+ 31s+! 37x
MemoryManager 21a- 22b+ 32s+! 36x
MinDomainsInPodTopologySpread 24a- 25b- 27b+ 30s+! 32x
MinimizeIPTablesRestore 26a- 27b+ 28s+! 30x
MixedProtocolLBService 20a- 24b+ 26s+! 28x
MultiCIDRRangeAllocator 25a- 29x
NamespaceDefaultLabelName 21b+ 22s+! 24x
NetworkPolicyEndPort 21a- 22b+ 25s+! 27x
NetworkPolicyStatus 24a- 28x
NewVolumeManagerReconstruction 27b- 28b+ 30s+! 32x
NodeDisruptionExclusion 20b+ 21s+! 22x
NodeLease 20s+! 23x
NodeOutOfServiceVolumeDetach 24a- 26b+ 28s+! 32x
NonPreemptingPriority 20b+ 24s+! 26x
OpenAPIV3 23a- 24b+ 27s+! 29x
OrderedNamespaceDeletion 30b- 33b+ 34s+! 37x
PDBUnhealthyPodEvictionPolicy 26a- 27b+ 31s+! 33x
PersistentVolumeLastPhaseTransitionTime 28a- 29b+ 31s+! 33x
PodAffinityNamespaceSelector 21a- 22b+ 24s+! 26x
PodDisruptionBudget 20b+ 21s+! 25x
PodDisruptionConditions 25a- 26b+ 31s+! 34x
PodHasNetworkCondition 25a- 28x
PodHostIPs 28a- 29b+ 30s+! 32x
PodIndexLabel 28b+ 32s+! 35x
PodLifecycleSleepAction 29a- 30b+ 34s+! 37x
PodLifecycleSleepActionAllowZero 32a- 33b+ 34s+! 37x
PodOverhead 20b+ 24s+! 26x
PodSecurity 22a- 23b+ 25s+! 28x
PreferNominatedNode 21a- 22b+ 24s+! 26x
PreventStaticPodAPIReferences 34b+ 37x
ProbeHostPodSecurityStandards 34s+! 35x
ProbeTerminationGracePeriod 21a- 22b- 25b+ 28s+! 29x
ProxyTerminatingEndpoints 22a- 26b+ 28s+! 30x
ReadWriteOncePod 22a- 27b+ 29s+! 31x
RelaxedDNSSearchValidation 32a- 33b+ 34s+! 37x
RemainingItemCount 20b+ 29s+! 33x
RemoveSelfLink 20b+ 24s+! 30x
ResilientWatchCacheInitialization 31b+ 34s+! 37x
RetroactiveDefaultStorageClass 25a- 26b+ 28s+! 29x
RetryGenerateName 30a- 31b+ 32s+! 37x
RootCAConfigMap 20b+ 21s+! 22x
RotateKubeletClientCertificate 20s+! 21x
RunAsGroup 20b+ 21s+! 22x
RuntimeClass 20s+! 24x
SCTPSupport 20s+! 22x
SchedulerQueueingHints 28b- 32b+ 34s+! 37x
SeccompDefault 22a- 25b+ 27s+! 29x
SecurityContextDeny 27a- 30x
SelectorIndex 20s+! 25x
ServerSideApply 20b+ 22s+ 26s+! 32x
ServerSideFieldValidation 23a- 25b+ 27s+! 32x
ServiceAccountIssuerDiscovery 20b+ 21s+! 23x
ServiceAppProtocol 20s+! 22x
ServiceIPStaticSubrange 24a- 25b+ 26s+! 28x
ServiceInternalTrafficPolicy 21a- 22b+ 26s+! 28x
ServiceLBNodePortControl 20a- 22b+ 24s+! 26x
ServiceLoadBalancerClass 21a- 22b+ 24s+! 26x
ServiceNodeExclusion 20b+ 21s+! 22x
ServiceNodePortStaticSubrange 27a- 28b+ 29s+! 31x
ServiceTopology 20a- 22x
ServiceTrafficDistribution 30a- 31b+ 33s+! 36x
SetHostnameAsFQDN 20b+ 22s+! 24x
SidecarContainers 28a- 29b+ 33s+! 37x
SizeMemoryBackedVolumes 20a- 22b+ 32s+! 35x
SkipReadOnlyValidationGCE 28a- 29d+ 31x
StableLoadBalancerNodeSet 27b+ 30s+! 32x
StartupProbe 20s+! 23x
StatefulSetAutoDeletePVC 23a- 27b+ 32s+! 35x
StatefulSetMinReadySeconds 22a- 23b+ 25s+! 27x
StatefulSetStartOrdinal 26a- 27b+ 31s+! 34x
StorageObjectInUseProtection 20s+ 23s+! 25x
StreamingCollectionEncodingToJSON 33b+ 34s+! 37x
StreamingCollectionEncodingToProtobuf 33b+ 34s+! 37x
StreamingProxyRedirects 20d+ 22d- 24x
StrictCostEnforcementForVAP 30b- 32s+! 35x
StrictCostEnforcementForWebhooks 30b- 32s+! 35x
StructuredAuthenticationConfiguration 29a- 30b+ 34s+! 37x
StructuredAuthorizationConfiguration 29a- 30b+ 32s+! 36x
SupportNodePidsLimit 20s+! 23x
SupportPodPidsLimit 20s+! 23x
SuspendJob 21a- 22b+ 24s+! 26x
Sysctls 20b+ 21s+! 23x
TTLAfterFinished 20a- 21b+ 23s+! 25x
TokenRequest 20s+! 21x
TokenRequestProjection 20s+! 21x
TopologyAwareHints 21a- 23b- 24b+ 33s+! 36x
TopologyManager 20b+ 27s+! 29x
UserNamespacesPodSecurityStandards 29a- 35x
UserNamespacesStatelessPodsSupport 25a- 28x
ValidateProxyRedirects 20b+ 22d+ 24x
ValidatingAdmissionPolicy 26a- 28b- 30s+! 32x
VolumeCapacityPriority 21a- 33x
VolumePVCDataSource 20s+! 21x
VolumeSnapshotDataSource 20s+! 22x
VolumeSubpath 20s+ 23s+! 25x
WarningHeaders 20b+ 22s+! 24x
WatchBookmark 20s+! 33x
WatchFromStorageWithoutResourceVersion 27b- 33d-! 36x
WindowsEndpointSliceProxying 20a- 21b+ 22s+! 25x
WindowsGMSA 20s+! 21x
WindowsHostProcessContainers 22a- 23b+ 26s+! 28x
WindowsRunAsUserName 20s+! 21x
WorkloadAwarePreemption 36a- 37x
ZeroLimitedNominalConcurrencyShares 29b- 30s+! 32x
csiMigrationRBD 23a- 24x
"""
