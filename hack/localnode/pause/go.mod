module worklease.dev/hack/localnode/pause

go 1.26
