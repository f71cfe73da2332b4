package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// One resource with devices that do not exist.
type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, each := range request.ContainerRequests {
		given := &api.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": strings.Join(each.DevicesIds, ",")}}
		response.ContainerResponses = append(response.ContainerResponses, given)
	}
	return response, nil
}

// Offer devices in the kubelet's folder: {"vendor/resource": {"id": [NUMA nodes] or null}}.  A kubelet that starts
// again empties the folder; then everything is registered again.
func offerDevices(folder, description string) error {
	var resources map[string]map[string][]int64
	if err := json.Unmarshal([]byte(description), &resources); err != nil {
		return err
	}
	for {
		var servers []*grpc.Server
		for resource, devices := range resources {
			server, err := offer(folder, resource, devices)
			if err != nil {
				fmt.Fprintln(os.Stderr, resource, err)
				break
			}
			servers = append(servers, server)
		}
		for len(servers) == len(resources) && standing(folder, resources) {
			time.Sleep(300 * time.Millisecond)
		}
		for _, server := range servers {
			server.Stop()
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func socket(resource string) string {
	return strings.ReplaceAll(resource, "/", "-") + ".sock"
}

func standing(folder string, resources map[string]map[string][]int64) bool {
	for resource := range resources {
		if _, err := os.Stat(filepath.Join(folder, socket(resource))); err != nil {
			return false
		}
	}
	return true
}

func offer(folder, resource string, devices map[string][]int64) (*grpc.Server, error) {
	offered := &plugin{}
	for id, nodes := range devices {
		device := &api.Device{ID: id, Health: api.Healthy}
		if nodes != nil {
			device.Topology = &api.TopologyInfo{}
			for _, node := range nodes {
				device.Topology.Nodes = append(device.Topology.Nodes, &api.NUMANode{ID: node})
			}
		}
		offered.devices = append(offered.devices, device)
	}
	path := filepath.Join(folder, socket(resource))
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, offered)
	go func() { _ = server.Serve(listener) }()
	kubelet, err := grpc.NewClient("unix://"+filepath.Join(folder, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return server, err
	}
	defer kubelet.Close()
	wait, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(kubelet).Register(wait, &api.RegisterRequest{
		Version: api.Version, Endpoint: socket(resource), ResourceName: resource, Options: &api.DevicePluginOptions{},
	})
	return server, err
}
