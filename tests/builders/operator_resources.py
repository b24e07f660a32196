"""Where the API server has objects of kinds of other projects, as the documents of these say."""

from queues.api.api_resources import ApiResource
from queues.api.workload_kinds import SHIPPED_KINDS

_BY_KIND = {each.resource.kind: each.resource for each in SHIPPED_KINDS}

JOB_SETS: ApiResource = _BY_KIND["JobSet"]
MPI_JOBS: ApiResource = _BY_KIND["MPIJob"]
PYTORCH_JOBS: ApiResource = _BY_KIND["PyTorchJob"]
TF_JOBS: ApiResource = _BY_KIND["TFJob"]
XGBOOST_JOBS: ApiResource = _BY_KIND["XGBoostJob"]
PADDLE_JOBS: ApiResource = _BY_KIND["PaddleJob"]
JAX_JOBS: ApiResource = _BY_KIND["JAXJob"]
RAY_CLUSTERS: ApiResource = _BY_KIND["RayCluster"]
RAY_JOBS: ApiResource = _BY_KIND["RayJob"]
SPARK_APPLICATIONS: ApiResource = _BY_KIND["SparkApplication"]
RAY_SERVICES: ApiResource = _BY_KIND["RayService"]
TRAIN_JOBS: ApiResource = _BY_KIND["TrainJob"]
