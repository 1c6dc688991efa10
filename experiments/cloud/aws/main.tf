# One instance with GPUs, reachable by SSH from one address, with a key that exists as long as the instance.
#
# You need an AWS account with a quota for the instance type; `terraform` and `tofu` take your credentials from
# the usual places. The module creates everything in the default VPC of the region.

terraform {
  required_providers {
    aws   = { source = "hashicorp/aws", version = "~> 5.100" }
    tls   = { source = "hashicorp/tls", version = "~> 4.0" }
    local = { source = "hashicorp/local", version = "~> 2.5" }
  }
}

variable "region" {
  type    = string
  default = "us-east-1"
}

variable "instance_type" {
  type        = string
  description = "g6.xlarge has one L4, g6.12xlarge has four."
}

variable "ssh_from" {
  type        = string
  description = "The addresses that may reach it by SSH, for instance 203.0.113.7/32."
}

variable "disk_gib" {
  type    = number
  default = 150
}

provider "aws" {
  region = var.region
}

# Ubuntu with the GPU driver, provided by AWS.
data "aws_ssm_parameter" "image" {
  name = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
}

resource "tls_private_key" "study" {
  algorithm = "ED25519"
}

resource "local_sensitive_file" "key" {
  content         = tls_private_key.study.private_key_openssh
  filename        = "${path.module}/key"
  file_permission = "0600"
}

resource "aws_key_pair" "study" {
  key_name_prefix = "benchtrail-"
  public_key      = tls_private_key.study.public_key_openssh
}

resource "aws_security_group" "study" {
  name_prefix = "benchtrail-"
  ingress {
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = [var.ssh_from]
  }
  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_instance" "study" {
  ami                         = data.aws_ssm_parameter.image.value
  instance_type               = var.instance_type
  key_name                    = aws_key_pair.study.key_name
  vpc_security_group_ids      = [aws_security_group.study.id]
  associate_public_ip_address = true
  # A shutdown from inside also ends the cost.
  instance_initiated_shutdown_behavior = "terminate"
  root_block_device {
    volume_size = var.disk_gib
    volume_type = "gp3"
  }
  metadata_options {
    http_tokens = "required"
  }
  tags = { Name = "benchtrail" }
}

output "host" { value = aws_instance.study.public_ip }
output "user" { value = "ubuntu" }
output "key_path" { value = "key" }
output "instance" { value = aws_instance.study.id }
output "image" { value = nonsensitive(data.aws_ssm_parameter.image.value) }
