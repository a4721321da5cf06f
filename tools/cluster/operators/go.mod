// The operators whose kinds the manifests use: their modules hold the definitions of them (CRDs).
module groundline.dev/cluster/operators

go 1.26.0

require (
	github.com/argoproj/argo-rollouts v1.8.3
	github.com/cert-manager/cert-manager v1.21.2
	github.com/cloudnative-pg/cloudnative-pg v1.30.0
	github.com/fluxcd/flagger v1.36.1
	sigs.k8s.io/gateway-api v1.4.0
)
