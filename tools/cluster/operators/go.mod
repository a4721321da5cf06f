// The operators whose kinds the manifests use: their modules hold the definitions of them (CRDs).
module groundline.dev/cluster/operators

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/cloudnative-pg/cloudnative-pg v1.30.0
)
