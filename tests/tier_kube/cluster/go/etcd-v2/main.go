// Command etcd-v2 is the server of the last etcd that has the second version of its API.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
