"""Feature gates that the newest release still has: what became of each since 1.20, and what they need.

A line is a gate and its steps; a step is the minor release, then the level (``a`` alpha, ``b`` beta,
``s`` stable, ``d`` deprecated), on or off by default, and ``!`` when it is locked to that.  ``x``: gone.
A step of 20 may be older.  A new release adds steps to the lines that change, and lines; a gate that
it drops moves to ``gatehistory_gone``.
"""

LIVING = """
APIResponseCompression 20b+
APIServerIdentity 20a- 26b+
APIServerWebhookAuthenticationToken 37a-
APIServingWithRoutine 30a-
AggregatedDiscoveryRemoveBetaType 33d+ 35d+!
AllAlpha 20a-
AllBeta 20b-
AllowDNSOnlyNodeCSR 31d-
AllowInsecureKubeletCertificateSigningRequests 31d-
AllowOverwriteTerminationGracePeriodSeconds 32d- 35d-!
AllowParsingUserUIDFromCertAuth 33b+
AllowServiceExternalIPs 36s+
AllowUnsafeMalformedObjectDeletion 32a- 37b+
AtomicFIFO 36b+
AtomicWriteVolumeUserFields 37a-
AuthorizePodWebsocketUpgradeCreatePermission 35b+
CBORServingAndStorage 32a-
CPUManagerPolicyAlphaOptions 23a-
CPUManagerPolicyBetaOptions 23b+
CPUManagerPolicyOptions 22a- 23b+ 33s+!
CRDObservedGenerationTracking 35b- 36b+
CRDValidationRatcheting 28a- 30b+ 33s+!
CRIListStreaming 36a-
CSIServiceAccountTokenSecrets 35b+ 36s+!
CSIVolumeHealth 21a-
ChangeContainerStatusOnKubeletRestart 35d-
ClearingNominatedNodeNameAfterBinding 34a- 35b+
ClientsAllowCARotation 36b+
ClientsAllowCBOR 32a-
ClientsAllowTLSCacheGC 36b+
ClientsPreferCBOR 32a-
CloudControllerManagerWatchBasedRoutesReconciliation 35a-
CloudControllerManagerWebhook 27a-
ClusterTrustBundle 27a- 33b- 37s+
ClusterTrustBundleProjection 29a- 33b- 37s+
ComponentFlagz 32a- 36b+
ComponentStatusz 32a- 36b+
CompositePodGroup 37a-
ConcurrentWatchObjectDecode 31b- 37b+
ConsistentListFromCacheSkipTimeoutFallback 37a-
ConstrainedImpersonation 35a- 36b+
ContainerCheckpoint 25a- 30b+
ContainerRestartRules 34a- 35b+
ContainerStopSignals 33a-
ContextualLogging 24a- 30b+
ControllerManagerReleaseLeaderElectionLockOnExit 36a-
CoordinatedLeaderElection 31a- 33b-
CrossNamespaceVolumeDataSource 26a-
CustomCPUCFSQuotaPeriod 20a- 36s+
CustomResourceFieldSelectors 30a- 31b+ 32s+!
DRAAdminAccess 32a- 34b+ 36s+!
DRAConsumableCapacity 34a- 36b+
DRADerivedAttributes 37a-
DRADeviceBindingConditions 34a- 36b+
DRADeviceCompatibilityGroups 37a-
DRADeviceTaintRules 35a- 36b- 37s+
DRADeviceTaints 33a- 36b+ 37s+
DRAExtendedResource 34a- 36b+ 37s+!
DRAFractionalCapacityRange 37b-
DRAListTypeAttributes 36a-
DRANodeAllocatableResources 36a-
DRAOptionalNodeOperations 37a-
DRAPartitionableDevices 33a- 36b+
DRAPartitionableDevicesType 37a-
DRAPrioritizedList 33a- 34b+ 36s+ 37s+!
DRAResourceClaimDeviceStatus 32a- 33b+ 37s+!
DRAResourceClaimGranularStatusAuthorization 36b+
DRAResourcePoolStatus 36a-
DRASchedulerFilterTimeout 34b+
DRAWorkloadResourceClaims 36a- 37b-
DeclarativeValidation 33b+ 36s+!
DeclarativeValidationBeta 36b+
DeclarativeValidationTakeover 33b- 36d- 37d-!
DefaultPodSysctls 37a-
DeploymentReplicaSetTerminatingReplicas 33a- 35b+
DetectCacheInconsistency 34b+
DisableAllocatorDualWrite 31a- 33b- 34s+ 35s+!
DisableCPUQuotaWithExclusiveCPUs 33b+ 36d+ 37d+!
DisableNodeKubeProxyVersion 29a- 31d- 33d+ 36d+!
DynamicResourceAllocation 26a- 32b- 34s+ 35s+!
EmptyDirVolumeMode 37a-
EnvFiles 34a- 35b+
EtcdRangeStream 37b+
EventedPLEG 26a-
EvictionRequestAPI 37a-
ExcludeAdmissionWebhookVirtualResources 37b+
ExecProbeTimeout 20s+ 35s+!
ExtendWebSocketsToKubelet 36b+
ExternalServiceAccountTokenSigner 32a- 34b+ 36s+!
GRPCContainerProbeTLS 37a-
GenericWorkload 35a- 37b-
GitRepoVolumeDriver 33d- 36d-!
GracefulNodeShutdown 20a- 21b+
GracefulNodeShutdownBasedOnPodPriority 23a- 24b+
H2CContainerProbe 37a-
HPAConfigurableTolerance 33a- 35b+ 37s+!
HPAGeneration 37b+
HPAOptimizedSelectorStore 37b+
HPAScaleToZero 20a- 37b+
HostnameOverride 34a- 35b+ 37s+!
HugepageAwareEviction 37b+
ImageMaximumGCAge 29a- 30b+ 35s+!
ImageVolume 31a- 33b- 35b+ 36s+!
ImageVolumeWithDigest 36a-
InOrderInformers 33b+ 36s+!
InOrderInformersBatchProcess 35b+
InPlacePodLevelResourcesVerticalScaling 35a- 36b+
InPlacePodVerticalScaling 27a- 33b+ 35s+!
InPlacePodVerticalScalingExclusiveCPUs 32a-
InPlacePodVerticalScalingExclusiveMemory 34a-
InPlacePodVerticalScalingInitContainers 36b+ 37s+!
InPlacePodVerticalScalingMemoryBackedVolumes 37a-
InPlacePodVerticalScalingSchedulerPreemption 37a-
InformerResourceVersion 30a- 35s+
InterPodAffinityHostnameFastPath 37a-
JobManagedBy 30a- 32b+ 35s+!
KMSv1 28d+ 29d-
KubeProxyIPVS 37d+
KubeProxyNFTablesLocalhostNodePorts 37a-
KubeletAllocatedPodsEndpoint 37a-
KubeletCgroupDriverFromCRI 28a- 31b+ 34s+!
KubeletCrashLoopBackOffMax 32a- 35b+
KubeletEnsureSecretPulledImages 33a- 35b+
KubeletFineGrainedAuthz 32a- 33b+ 36s+!
KubeletInUserNamespace 22a- 37b+
KubeletPSI 33a- 34b+ 36s+!
KubeletPodResourcesDynamicResources 27a- 34b+ 36s+!
KubeletPodResourcesGet 27a- 34b+ 36s+!
KubeletPodResourcesListUseActivePods 34d+
KubeletRegistrationGetOnExistsOnly 32d-
KubeletSeparateDiskGC 29a- 31b+
KubeletServiceAccountTokenForCredentialProviders 33a- 34b+
KubeletTracing 25a- 27b+ 34s+!
ListFromCacheSnapshot 33a- 34b+
LocalStorageCapacityIsolationFSQuotaMonitoring 20a- 31b-
LoggingAlphaOptions 25a-
LoggingBetaOptions 25b+
ManifestBasedAdmissionControlConfig 36a- 37b+
MatchLabelKeysInPodAffinity 29a- 31b+ 33s+!
MatchLabelKeysInPodTopologySpread 25a- 27b+
MatchLabelKeysInPodTopologySpreadSelectorMerge 34b+
MaxUnavailableStatefulSet 24a- 35b- 37b+
MemoryQoS 22a- 37b+
MultiCIDRServiceAllocator 27a- 31b- 33s+ 34s+!
MutableCSINodeAllocatableCount 33a- 34b- 35b+ 36s+!
MutablePVNodeAffinity 35a-
MutablePodResourcesForSuspendedJobs 35a- 36b+
MutableSchedulingDirectivesForSuspendedJobs 35a- 36b+
MutatingAdmissionPolicy 30a- 34b- 36s+
NFTablesNetlink 37b+
NFTablesProxyMode 29a- 31b+ 33s+!
NativeHistograms 36a- 37b+
NodeControllerLeaseCircuitBreaker 37b+
NodeDeclaredFeatures 35a- 36b+ 37s+!
NodeInclusionPolicyInPodTopologySpread 25a- 26b+ 33s+!
NodeLifecycleConditions 37a-
NodeLogQuery 27a- 30b- 36s+!
NodeSwap 22a- 28b- 30b+ 34s+!
NominatedNodeNameForExpectation 34a- 35b+
OpenAPIEnums 23a- 24b+
OpportunisticBatching 35b+
PLEGOnDemandRelist 36b+ 37s+!
PersistentVolumeClaimUnusedSinceTime 36a- 37b+
PodAndContainerStatsFromCRI 23a- 37b-
PodCertificateRequest 34a- 35b- 37s+
PodDeletionCost 21a- 22b+
PodGroupPreemptionPolicy 37a-
PodLevelResourceManagers 36a- 37b-
PodLevelResources 32a- 34b+
PodLevelResourcesFixDefaulting 37b+
PodLevelResourcesFixKubeletQOSClass 37b+
PodLogsQuerySplitStreams 32a-
PodObservedGenerationTracking 33a- 34b+ 35s+!
PodReadyToStartContainersCondition 28a- 29b+ 37s+!
PodSchedulingReadiness 26a- 27b+ 30s+!
PodTopologyLabelsAdmission 33a- 35b+
PodsAPI 36a- 37b+
PortForwardWebsockets 30a- 31b+
PreferSameTrafficDistribution 33a- 34b+ 35s+!
ProcMountType 20a- 31b- 33b+ 36s+!
QOSReserved 20a-
RecoverVolumeExpansionFailure 23a- 32b+ 34s+!
RecursiveReadOnlyMounts 30a- 31b+ 33s+!
ReduceDefaultCrashLoopBackOffDecay 33a-
RelaxedEnvironmentVariableValidation 30a- 32b+ 34s+!
RelaxedServiceNameValidation 34a- 36b+ 37s+!
ReloadKubeletClientCAFile 36b+
ReloadKubeletServerCertificateFile 31b+
RemoteRequestHeaderUID 32a- 33b+
ResourceHealthStatus 31a- 36b+
ResourceHealthStatusMessage 36b+
RestartAllContainersOnContainerExits 35a- 36b+
RotateKubeletServerCertificate 20b+
RuntimeClassInImageCriApi 29a-
SELinuxChangePolicy 32a- 33b+ 36s+!
SELinuxMount 30a- 33b- 37s+
SELinuxMountReadWriteOncePod 25a- 27b- 28b+ 36s+!
SchedulerAsyncAPICalls 34b-
SchedulerAsyncPreemption 32a- 33b+
SchedulerPopFromBackoffQ 33b+
SchedulerPreQueueingHints 37a-
SeparateCacheWatchRPC 28b+ 33d- 36d-!
SeparateTaintEvictionController 29b+ 34s+!
ServiceAccountNodeAudienceRestriction 32b- 33b+
ServiceAccountTokenJTI 29a- 30b+ 32s+!
ServiceAccountTokenNodeBinding 29a- 31b+ 33s+!
ServiceAccountTokenNodeBindingValidation 29a- 30b+ 32s+!
ServiceAccountTokenPodNodeInfo 29a- 30b+ 32s+!
ServiceCIDRStatusFieldWiping 36d+
ShardedListAndWatch 36a-
SizeBasedListCostEstimate 34b+
StaleControllerConsistencyDaemonSet 36b+
StaleControllerConsistencyHPA 37b+
StaleControllerConsistencyJob 36b+
StaleControllerConsistencyReplicaSet 36b+
StaleControllerConsistencyStatefulSet 36b+
StatefulSetRecreateStrategy 37a-
StatefulSetSemanticRevisionComparison 34b+
StorageCapacityScoring 33a- 37b+
StorageNamespaceIndex 30b+ 33d+
StorageVersionAPI 20a-
StorageVersionHash 20b+
StorageVersionMigrator 30a- 35b- 37s+
StrictIPCIDRValidation 33a- 36b+
StructuredAuthenticationConfigurationEgressSelector 34b+
StructuredAuthenticationConfigurationJWKSMetrics 35b+
SupplementalGroupsPolicy 31a- 33b+ 35s+!
SystemdWatchdog 32b+ 35s+!
TaintTolerationComparisonOperators 35a-
TokenRequestServiceAccountUIDValidation 34b+
TopologyAwareWorkloadScheduling 36a-
TopologyManagerPolicyAlphaOptions 26a-
TopologyManagerPolicyBetaOptions 26b- 28b+
TopologyManagerPolicyOptions 26a- 28b+ 32s+ 36s+!
TranslateStreamCloseWebsocketRequests 29a- 30b+
UnauthenticatedHTTP2DOSMitigation 25b- 29b+
UnknownVersionInteroperabilityProxy 28a- 36b+
UnlockWhileProcessingFIFO 36b+
UserNamespacesHostNetworkSupport 35a-
UserNamespacesSupport 28a- 30b- 33b+ 36s+!
VolumeAttributesClass 29a- 31b- 34s+ 36s+!
VolumeBindMountOptions 37a-
VolumeLimitScaling 35a- 37b+
WatchCacheInitializationPostStartHook 31b- 36b+ 37s+!
WatchList 27a- 32b+ 33b- 34b+
WatchListClient 30b- 35b+
WatchListCompression 37b+
WebhookRoundTripLoadBalancing 37b+
WinDSR 20a- 33b+ 34s+!
WinOverlay 20b+ 34s+!
WindowsCPUAndMemoryAffinity 32a-
WindowsGracefulNodeShutdown 32a- 34b+
WindowsHostNetwork 26a+ 33d-
WorkloadWithJob 36a-
"""

NEEDS = """
AuthorizeNodeWithSelectors AuthorizeWithSelectors
ClusterTrustBundleProjection ClusterTrustBundle
CompositePodGroup GenericWorkload TopologyAwareWorkloadScheduling
DRAAdminAccess DynamicResourceAllocation
DRAConsumableCapacity DynamicResourceAllocation
DRADerivedAttributes DynamicResourceAllocation
DRADeviceBindingConditions DRAResourceClaimDeviceStatus DynamicResourceAllocation
DRADeviceCompatibilityGroups DRAPartitionableDevices DynamicResourceAllocation
DRADeviceTaintRules DRADeviceTaints
DRADeviceTaints DynamicResourceAllocation
DRAExtendedResource DynamicResourceAllocation
DRAFractionalCapacityRange DRAConsumableCapacity
DRAListTypeAttributes DynamicResourceAllocation
DRANodeAllocatableResources DynamicResourceAllocation
DRAOptionalNodeOperations DynamicResourceAllocation NodeDeclaredFeatures
DRAPartitionableDevices DynamicResourceAllocation
DRAPartitionableDevicesType DRAPartitionableDevices DRAResourcePoolStatus DynamicResourceAllocation
DRAPrioritizedList DynamicResourceAllocation
DRAResourceClaimGranularStatusAuthorization DRAResourceClaimDeviceStatus DynamicResourceAllocation
DRAResourcePoolStatus DynamicResourceAllocation
DRASchedulerFilterTimeout DynamicResourceAllocation
DRAWorkloadResourceClaims DynamicResourceAllocation GenericWorkload
DeclarativeValidationBeta DeclarativeValidation
DeclarativeValidationTakeover DeclarativeValidation
DisableAllocatorDualWrite MultiCIDRServiceAllocator
EventedPLEG PLEGOnDemandRelist@37
ExtendWebSocketsToKubelet NodeDeclaredFeatures
GangScheduling GenericWorkload
GracefulNodeShutdownBasedOnPodPriority GracefulNodeShutdown
H2CContainerProbe NodeDeclaredFeatures
ImageVolumeWithDigest ImageVolume
InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling NodeDeclaredFeatures PodLevelResources
InPlacePodVerticalScalingAllocatedStatus InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScaling MemoryManager
InPlacePodVerticalScalingInitContainers InPlacePodVerticalScaling NodeDeclaredFeatures
InPlacePodVerticalScalingMemoryBackedVolumes InPlacePodVerticalScaling NodeDeclaredFeatures
InPlacePodVerticalScalingSchedulerPreemption InPlacePodVerticalScaling
KubeletAllocatedPodsEndpoint InPlacePodVerticalScaling
MatchLabelKeysInPodTopologySpreadSelectorMerge MatchLabelKeysInPodTopologySpread
NodeControllerLeaseCircuitBreaker AtomicFIFO
PodCertificateRequest AuthorizeNodeWithSelectors
PodGroupPreemptionPolicy GenericWorkload
PodLevelResourceManagers PodLevelResources
PodLevelResourcesFixDefaulting PodLevelResources
PodLevelResourcesFixKubeletQOSClass PodLevelResources
PodLifecycleSleepActionAllowZero PodLifecycleSleepAction
ProcMountType UserNamespacesSupport
ResourceHealthStatus DynamicResourceAllocation
ResourceHealthStatusMessage ResourceHealthStatus
RestartAllContainersOnContainerExits ContainerRestartRules NodeDeclaredFeatures
ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
StaleControllerConsistencyDaemonSet AtomicFIFO
StaleControllerConsistencyHPA AtomicFIFO
StaleControllerConsistencyJob AtomicFIFO
StaleControllerConsistencyReplicaSet AtomicFIFO
StaleControllerConsistencyStatefulSet AtomicFIFO
StorageVersionAPI APIServerIdentity
StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfiguration
StructuredAuthenticationConfigurationJWKSMetrics StructuredAuthenticationConfiguration
TopologyAwareWorkloadScheduling GenericWorkload
UnknownVersionInteroperabilityProxy APIServerIdentity
UserNamespacesHostNetworkSupport NodeDeclaredFeatures@36 UserNamespacesSupport
WindowsCPUAndMemoryAffinity MemoryManager
WindowsGracefulNodeShutdown GracefulNodeShutdown
WorkloadAwarePreemption GangScheduling
WorkloadWithJob GenericWorkload
"""
"""What a gate that is on must find on too, in releases that know both; ``@36``: only from there on."""
